const MOST = 4

/** Works on every item, at most four at once, and keeps their order. */
export async function atOnce<T, R>(items: readonly T[], work: (item: T, at: number) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  let next = 0
  const worker = async () => {
    for (let at = next++; at < items.length; at = next++) results[at] = await work(items[at]!, at)
  }
  await Promise.all(Array.from({ length: MOST }, worker))
  return results
}
