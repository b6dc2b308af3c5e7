/** Works on every item, at most `most` at once, and keeps their order. */
export async function atOnce<T, R>(most: number, items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  let next = 0
  const worker = async () => {
    for (let at = next++; at < items.length; at = next++) results[at] = await work(items[at]!)
  }
  await Promise.all(Array.from({ length: most }, worker))
  return results
}
