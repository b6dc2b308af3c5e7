/** Work that sees what was there when it began: a call that comes while it is under way shares the next turn of it. */
export function shared(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | null = null
  let next: Promise<void> | null = null
  return function turn(): Promise<void> {
    if (running === null) {
      running = work().finally(() => {
        running = null
      })
      return running
    }
    next ??= running
      .catch(() => {})
      .then(() => {
        next = null
        return turn()
      })
    return next
  }
}
