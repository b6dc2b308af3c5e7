/**
 * An HTTP/1.1 client for measuring: one keep-alive connection, one request at a time, no avoidable copies. A request
 * is a prepared string; `npm run bench` measures the client's own cost against a server that does nothing.
 */
import { connect, type Socket } from 'node:net'
import { StringDecoder } from 'node:string_decoder'
import { Wrong } from './wrong.js'

export interface Head {
  status: number
  /** The head as received, without the empty line. */
  text: string
}

export interface Answer extends Head {
  body: string
}

/** Receives a response while it arrives. `piece` is only valid during the call. */
export interface Taker {
  head?(head: Head): void
  data(piece: Buffer): void
}

export interface Connection {
  /** Sends; resolves when the response is complete, rejects with a Wrong when the connection ends before that. */
  stream(request: string, taker: Taker): Promise<Head>
  /** Like `stream`, with the whole body as text. */
  ask(request: string): Promise<Answer>
  /** Closes the connection, also in the middle of a response. */
  close(): void
}

/** Request text. `body` is sent as JSON and must be ASCII, so that its length is its size. */
export function requestText(
  method: string,
  path: string,
  body?: unknown,
  headers: { [name: string]: string } = {},
): string {
  const text = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body)
  let head = `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n`
  for (const [name, value] of Object.entries(headers)) head += `${name}: ${value}\r\n`
  if (body !== undefined) head += `Content-Type: application/json\r\nContent-Length: ${text.length}\r\n`
  return `${head}\r\n${text}`
}

const EMPTY = Buffer.alloc(0)

/** The part of a response that the next byte belongs to. */
type Place = 'head' | 'sized' | 'chunk-size' | 'chunk' | 'chunk-end' | 'trailer' | 'until-close'

/** Port → the header line of every request to it. */
const credentials = new Map<number, string>()
/** Port of the first edge → ports of all edges of that server; `next` counts the connections. */
const edges = new Map<number, { ports: readonly number[]; next: number }>()

/** From now on connections to the first of these ports are divided among all of them, as a balancer would. */
export const divideAmong = (ports: readonly number[]): void => void edges.set(ports[0]!, { ports, next: 0 })

/** From now on every request to this port carries the header. */
export const authenticate = (port: number, name: string, value: string): void =>
  void credentials.set(port, `\r\n${name}: ${value}\r\n`)

/** `bytes`: size of the read buffer; thousands of connections need small ones. */
export function openConnection(first: number, host = '127.0.0.1', bytes = 256 * 1024): Connection {
  const several = edges.get(first)
  const port = several === undefined ? first : several.ports[several.next++ % several.ports.length]!
  const credential = credentials.get(first)
  let socket: Socket | null = null
  let taker: Taker | null = null
  let done: { resolve(head: Head): void; reject(error: Error): void } | null = null
  let head: Head = { status: 0, text: '' }
  let place: Place = 'head'
  /** Remaining bytes of the body or of the chunk. */
  let left = 0
  /** A line or a head that is not complete yet. */
  let rest: Buffer = EMPTY

  function open(): Socket {
    const mine = connect({ port, host, noDelay: true, onread: { buffer: Buffer.allocUnsafe(bytes), callback } })
    mine.once('error', error => lost(mine, new Wrong(`the connection failed: ${error.message}`)))
    mine.once('close', () => lost(mine, new Wrong('the connection was closed before the answer was complete')))
    mine.once('end', () => {
      if (place === 'until-close' && mine === socket) finish()
    })
    return mine

    function callback(size: number, buffer: Uint8Array): boolean {
      if (mine === socket) {
        try {
          take((buffer as Buffer).subarray(0, size))
        } catch (error) {
          lost(mine, error as Error)
          mine.destroy()
        }
      }
      return true
    }
  }

  function lost(which: Socket, error: Error): void {
    if (which !== socket) return
    socket = null
    const waiting = done
    done = taker = null
    waiting?.reject(error)
  }

  function finish(): void {
    const waiting = done!
    done = taker = null
    place = 'head'
    if (/\r\nconnection: *close/i.test(head.text)) {
      socket?.destroy()
      socket = null
    }
    waiting.resolve(head)
  }

  function take(bytes: Buffer): void {
    if (rest.length > 0) {
      bytes = Buffer.concat([rest, bytes])
      rest = EMPTY
    }
    let at = 0
    while (at < bytes.length) {
      if (done === null) throw new Wrong('unexpected bytes arrived')
      if (place === 'head') {
        const end = bytes.indexOf('\r\n\r\n', at)
        if (end === -1) return keep(bytes, at)
        begin(bytes.toString('latin1', at, end))
        at = end + 4
        if ((place as Place) === 'sized' && left === 0) finish()
      } else if (place === 'chunk-size' || place === 'chunk-end' || place === 'trailer') {
        const end = bytes.indexOf('\r\n', at)
        if (end === -1) return keep(bytes, at)
        line(bytes.toString('latin1', at, end))
        at = end + 2
      } else {
        const size = place === 'until-close' ? bytes.length - at : Math.min(left, bytes.length - at)
        taker!.data(bytes.subarray(at, at + size))
        // The receiver has closed the connection.
        if (done === null) return
        at += size
        left -= size
        if (left > 0 || place === 'until-close') continue
        if (place === 'sized') finish()
        else place = 'chunk-end'
      }
    }
  }

  /** The buffer is reused by the next read. */
  function keep(bytes: Buffer, at: number): void {
    rest = Buffer.from(bytes.subarray(at))
  }

  function begin(text: string): void {
    head = { status: Number(text.slice(9, 12)), text }
    taker!.head?.(head)
    const length = /\r\ncontent-length: *(\d+)/i.exec(text)
    if (length !== null) {
      place = 'sized'
      left = Number(length[1])
    } else if (/\r\ntransfer-encoding: *chunked/i.test(text)) place = 'chunk-size'
    else if (head.status === 204 || head.status === 304) {
      place = 'sized'
      left = 0
    } else {
      place = 'until-close'
      left = 0
    }
  }

  function line(text: string): void {
    if (place === 'chunk-end') {
      if (text !== '') throw new Wrong('a chunk of the answer is longer than it says')
      place = 'chunk-size'
    } else if (place === 'chunk-size') {
      left = Number.parseInt(text, 16)
      if (Number.isNaN(left)) throw new Wrong(`"${text.slice(0, 40)}" is no size of a chunk`)
      place = left === 0 ? 'trailer' : 'chunk'
    } else if (text === '') finish()
  }

  function stream(request: string, to: Taker): Promise<Head> {
    if (done !== null) throw new Error('one request at a time')
    return new Promise((resolve, reject) => {
      done = { resolve, reject }
      taker = to
      place = 'head'
      rest = EMPTY
      socket ??= open()
      socket.write(credential === undefined ? request : request.replace('\r\n', credential), 'latin1')
    })
  }

  return {
    stream,
    async ask(request) {
      const decoder = new StringDecoder('utf8')
      let body = ''
      const answer = await stream(request, { data: piece => void (body += decoder.write(piece)) })
      return { ...answer, body }
    },
    close() {
      const mine = socket
      if (mine === null) return
      lost(mine, new Wrong('the connection was closed by the bench'))
      mine.destroy()
    },
  }
}
