/** TCP ports of this machine: is one free, does a server answer at one. */
import { connect, createServer } from 'node:net'

/** The port when it can be bound (for 0, one that the system chooses), else null. */
function tryPort(host: string, port: number): Promise<number | null> {
  return new Promise(done => {
    const server = createServer()
    server.once('error', () => done(null))
    server.listen({ host, port, exclusive: true }, () => {
      const { port } = server.address() as { port: number }
      server.close(() => done(port))
    })
  })
}

export const isFree = async (host: string, port: number): Promise<boolean> => (await tryPort(host, port)) !== null

/** A port of 127.0.0.1 that was free a moment ago. */
export async function freePort(): Promise<number> {
  const port = await tryPort('127.0.0.1', 0)
  if (port === null) throw new Error('the system has no free port on 127.0.0.1')
  return port
}

/** True when the port accepts a connection and, with `greeting`, the server's first bytes begin with it. */
export function answersAt(port: number, greeting?: string): Promise<boolean> {
  return new Promise(done => {
    const socket = connect(port, '127.0.0.1')
    const end = (answer: boolean) => {
      socket.destroy()
      done(answer)
    }
    socket.setTimeout(1_000, () => end(false))
    if (greeting === undefined) socket.once('connect', () => end(true))
    else socket.once('data', part => end(`${part}`.startsWith(greeting)))
    socket.once('error', () => end(false))
    socket.once('close', () => done(false))
  })
}
