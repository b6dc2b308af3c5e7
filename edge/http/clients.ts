/**
 * Limits for clients: open connections in all, and streams, waits and WebSockets of one remote address. Without them one
 * client takes the memory and the descriptors of the process.
 */
import { TransientMap, TransientSet } from '../../schemas/transient.js'

export interface Clients {
  /** Takes a place for a stream; null when its address has too many. The returned function releases it, once. */
  openStream(stream: Addressed): (() => void) | null
}

interface Addressed {
  /** Empty once the stream is over. */
  readonly remoteAddress: string
}

/** To read an address costs more than the rest: while fewer streams are open than one address may have, none is read. */
export function openClients(mostPerAddress: number): Clients {
  const unread = new TransientSet<Addressed>()
  const counts = new TransientMap<string, number>()
  const addresses = new TransientMap<Addressed, string>()

  function count(stream: Addressed): void {
    const address = stream.remoteAddress
    addresses.set(stream, address)
    counts.set(address, (counts.get(address) ?? 0) + 1)
  }

  function release(stream: Addressed): void {
    unread.delete(stream)
    const address = addresses.get(stream)
    if (address === undefined) return
    addresses.delete(stream)
    const left = counts.get(address)! - 1
    if (left > 0) counts.set(address, left)
    else counts.delete(address)
  }

  return {
    openStream(stream) {
      if (mostPerAddress > 0 && unread.size + addresses.size >= mostPerAddress) {
        for (const one of unread) count(one)
        unread.clear()
        if ((counts.get(stream.remoteAddress) ?? 0) >= mostPerAddress) return null
        count(stream)
      } else unread.add(stream)
      return () => release(stream)
    },
  }
}
