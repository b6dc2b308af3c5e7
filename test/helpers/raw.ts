/** Requests as bytes, for tests of what an HTTP client would not send. */
import net from 'node:net'

/** A socket that sends the given bytes and collects the answer. */
export interface Raw {
  socket: net.Socket
  text(): string
  /** Resolves when the text matches, or when the connection is closed. */
  until(pattern: RegExp | ((text: string) => boolean)): Promise<string>
  closed: Promise<string>
}

export function openRaw(port: number, first?: string | Buffer): Raw {
  const chunks: Buffer[] = []
  let text: string | null = ''
  const waiting = new Set<() => void>()
  let over = false
  const socket = net.connect(port, '127.0.0.1')
  if (first !== undefined) socket.write(first)
  const whole = () => (text ??= Buffer.concat(chunks).toString())
  socket.on('data', chunk => {
    chunks.push(chunk)
    text = null
    for (const check of [...waiting]) check()
  })
  socket.on('error', () => {})
  const closed = new Promise<string>(done =>
    socket.on('close', () => {
      over = true
      for (const check of [...waiting]) check()
      done(whole())
    }),
  )
  return {
    socket,
    text: whole,
    closed,
    until: pattern =>
      new Promise(done => {
        const check = () => {
          if (!over && !(typeof pattern === 'function' ? pattern(whole()) : pattern.test(whole()))) return
          waiting.delete(check)
          done(whole())
        }
        waiting.add(check)
        check()
      }),
  }
}

export const request = (method: string, path: string, extra = '', body = ''): string =>
  `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n${body === '' ? '' : `Content-Length: ${Buffer.byteLength(body)}\r\n`}${extra}\r\n${body}`
