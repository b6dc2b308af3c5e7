import { createHash } from 'node:crypto'

/** The file at a URL. Throws one sentence when it cannot be had, or has another sha256. */
export async function fetchPinned(url: string, sha256: string, limit_ms = 120_000): Promise<Uint8Array> {
  const name = url.split('/').at(-1)
  let answer: Response
  try {
    answer = await fetch(url, { signal: AbortSignal.timeout(limit_ms) })
  } catch (error) {
    const { cause, message } = error as Error & { cause?: Error }
    throw new Error(`${new URL(url).host}: ${cause?.message || message}`)
  }
  if (!answer.ok) throw new Error(`${new URL(url).host} answered ${answer.status} for ${name}`)
  const bytes = new Uint8Array(await answer.arrayBuffer())
  const found = createHash('sha256').update(bytes).digest('hex')
  if (found !== sha256) throw new Error(`${name} has the sha256 ${found}, expected ${sha256}`)
  return bytes
}
