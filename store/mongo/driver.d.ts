/** Parts of the driver that driver-sockets.ts uses, and that have no types. */
declare module 'mongodb/lib/cmap/connection.js' {
  import type { Socket } from 'node:net'

  interface Connection {
    readonly closed: boolean
    readonly socket: Socket
    cleanup(error: Error): void
  }
  export const Connection: { readonly prototype: Connection }
}
