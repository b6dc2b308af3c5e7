/**
 * Limits for clients: open connections in all, and streams, waits and WebSockets of one remote address. Without them one
 * client takes the memory and the descriptors of the process.
 */
export interface Clients {
  /** Takes a place for a stream; null when the address has too many. The returned function releases it, once. */
  openStream(address: string): (() => void) | null
}

export function openClients(mostPerAddress: number): Clients {
  const streams = new Map<string, number>()
  return {
    openStream(address) {
      const open = streams.get(address) ?? 0
      if (mostPerAddress > 0 && open >= mostPerAddress) return null
      streams.set(address, open + 1)
      let released = false
      return () => {
        if (released) return
        released = true
        const left = streams.get(address)! - 1
        if (left > 0) streams.set(address, left)
        else streams.delete(address)
      }
    },
  }
}
