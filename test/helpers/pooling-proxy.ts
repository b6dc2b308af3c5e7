/**
 * An HTTP proxy that passes bytes unchanged and uses one connection for all its clients, one after the other: the n-th
 * answer belongs to the n-th client. Each client sends one request. What the server answers to a request that no client
 * has sent is given to the next one, so that a smuggled request shows.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface PoolingProxy {
  port: number
  /** Bytes that were passed to the server. */
  passed(): number
  stop(): Promise<void>
}

interface Line {
  socket: Socket
  /** Clients without an answer, in the order of their requests. */
  waiting: Socket[]
  /** Bytes of the server that belong to nobody yet. */
  received: Buffer
}

/** In front of a server of this machine. */
export async function poolingProxy(serverPort: number): Promise<PoolingProxy> {
  const sockets = new Set<Socket>()
  let line: Line | null = null
  let passed = 0
  const track = (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
  }
  const open = (): Line => {
    const own: Line = { socket: connect(serverPort, '127.0.0.1'), waiting: [], received: Buffer.alloc(0) }
    track(own.socket)
    own.socket.on('data', bytes => {
      own.received = Buffer.concat([own.received, bytes])
      handOut(own)
    })
    own.socket.on('close', () => {
      if (line === own) line = null
      // An answer without a length lasts until the end of the connection.
      if (own.received.length > 0) own.waiting.shift()?.end(own.received)
      for (const client of own.waiting) client.end()
    })
    return own
  }
  const server = createServer({ allowHalfOpen: true }, client => {
    track(client)
    let own: Line | null = null
    client.on('data', bytes => {
      if (own === null) {
        own = line ??= open()
        own.waiting.push(client)
      }
      passed += bytes.length
      own.socket.write(bytes)
      handOut(own)
    })
  })
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  return {
    port: (server.address() as AddressInfo).port,
    passed: () => passed,
    async stop() {
      for (const socket of sockets) socket.destroy()
      await new Promise(done => server.close(done))
    },
  }
}

function handOut(line: Line): void {
  while (line.waiting.length > 0) {
    const end = endOfAnswer(line.received)
    if (end === null) return
    line.waiting.shift()!.end(line.received.subarray(0, end))
    line.received = line.received.subarray(end)
  }
}

/** Where the first answer ends; null: it has not, or only with its connection. */
function endOfAnswer(bytes: Buffer): number | null {
  const text = bytes.toString('latin1')
  const head = text.indexOf('\r\n\r\n')
  if (head < 0) return null
  const length = /\r\nContent-Length: (\d+)/i.exec(text.slice(0, head + 2))?.[1]
  if (length === undefined) return null
  const end = head + 4 + Number(length)
  return text.length < end ? null : end
}
