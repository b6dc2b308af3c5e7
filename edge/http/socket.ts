/** The two sides of a WebSocket of a client. */

/** The client of one connection. */
export interface Peer {
  /** False when its buffer is full: the message is sent all the same, and `onDrain` is called when there is room. */
  send(message: string | Uint8Array, isBinary?: boolean): boolean
  close(code: number, reason: string): void
}

/** The handler of one connection. */
export interface Socket {
  onMessage(bytes: Uint8Array, isBinary: boolean): void
  onDrain(): void
  onClose(code: number, reason: string): void
}
