/**
 * A proxy in front of a NATS server that reads what its client publishes: calls to a subject can be held back, so that a
 * test decides in which order they arrive and are answered.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface CallProxy {
  /** `url` with the host and port of the proxy. */
  url: string
  /** Calls to this subject wait from now on, also those to one of its workers. */
  hold(subject: string): void
  /** The calls that wait pass, in order, and no call is held back any more. */
  pass(): void
  /** Calls to this subject that have passed. */
  passed(subject: string): number
  stop(): Promise<void>
}

export async function callProxy(url: string): Promise<CallProxy> {
  const { hostname, port } = new URL(url)
  const sockets = new Set<Socket>()
  const held = new Set<string>()
  const counts = new Map<string, number>()
  let waiting: { to: Socket; bytes: Buffer; subject: string }[] = []
  const isHeld = (subject: string) => [...held].some(one => subject === one || subject.startsWith(`${one}.`))

  function forward(to: Socket, bytes: Buffer, subject: string): void {
    counts.set(subject, (counts.get(subject) ?? 0) + 1)
    to.write(bytes)
  }

  const server = createServer(client => {
    const upstream = connect(Number(port), hostname)
    const read = messageReader((bytes, subject) => {
      if (isHeld(subject)) waiting.push({ to: upstream, bytes, subject })
      else forward(upstream, bytes, subject)
    })
    client.on('data', read)
    upstream.pipe(client)
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from)
      from.on('error', () => {})
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
    }
  })
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  const own = new URL(url)
  own.host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url: own.href,
    hold: subject => void held.add(subject),
    pass() {
      held.clear()
      const now = waiting
      waiting = []
      for (const { to, bytes, subject } of now) forward(to, bytes, subject)
    },
    passed: subject => counts.get(subject) ?? 0,
    async stop() {
      for (const socket of sockets) socket.destroy()
      await new Promise(done => server.close(done))
    },
  }
}

/** Calls `onMessage` with each message that a client sends, whole, and the subject if it is published. */
function messageReader(onMessage: (bytes: Buffer, subject: string) => void): (data: Buffer) => void {
  let left = Buffer.alloc(0)
  return data => {
    left = Buffer.concat([left, data])
    for (let end = left.indexOf('\r\n'); end >= 0; end = left.indexOf('\r\n')) {
      const words = left.toString('latin1', 0, end).trim().split(/\s+/)
      const isPublished = /^H?PUB$/i.test(words[0]!)
      // The size of the body comes last.
      const size = end + 2 + (isPublished ? Number(words.at(-1)) + 2 : 0)
      if (left.length < size) return
      onMessage(left.subarray(0, size), isPublished ? words[1]! : '')
      left = left.subarray(size)
    }
  }
}
