/** The parts of the package `ws` that are used here. */
declare module 'ws' {
  import type { EventEmitter } from 'node:events'
  import type { ClientRequest, IncomingMessage } from 'node:http'
  import type { Duplex } from 'node:stream'

  interface Options {
    headers?: { [name: string]: string }
    createConnection?: () => Duplex
    handshakeTimeout?: number
    maxPayload?: number
    perMessageDeflate?: boolean
  }

  export class WebSocket extends EventEmitter {
    constructor(url: string, protocols: string[], options: Options)
    readonly protocol: string
    readonly bufferedAmount: number
    send(message: string | Uint8Array, options?: { binary: boolean }): void
    close(code?: number, reason?: string): void
    terminate(): void
    pause(): void
    resume(): void
    on(event: 'open', listener: () => void): this
    on(event: 'error', listener: (error: Error) => void): this
    on(event: 'message', listener: (bytes: Buffer, isBinary: boolean) => void): this
    on(event: 'close', listener: (code: number, reason: Buffer) => void): this
    on(event: 'unexpected-response', listener: (request: ClientRequest, answer: IncomingMessage) => void): this
  }
}
