/** What driver-sockets.ts reaches of the driver, which has no types for it. */
declare module 'mongodb/lib/cmap/connection.js' {
  import type { Socket } from 'node:net'

  interface Connection {
    readonly closed: boolean
    readonly socket: Socket
    cleanup(error: Error): void
  }
  export const Connection: { readonly prototype: Connection }
}
