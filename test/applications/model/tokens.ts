/**
 * The table of tokens that clients in Python count with, which `tiktoken` would download: the same table is in a package of
 * `@langchain/core`, in another form.
 */
import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { cached } from '../../../scripts/checks/venv.js'

/** The name that `tiktoken` gives it in its cache: a digest of its address. */
const NAME = '9b5ad71b2ce5302211f9c61530b329a4922fc6a4'

const core = createRequire(createRequire(import.meta.url).resolve('@langchain/core/messages'))

/** Answers the folder for `TIKTOKEN_CACHE_DIR`. */
export function tokensFolder(): string {
  const folder = cached('tiktoken')
  const file = join(folder, NAME)
  if (existsSync(file)) return folder
  mkdirSync(folder, { recursive: true })
  // Several may write it at the same time.
  const part = `${file}.${process.pid}`
  writeFileSync(part, tokens())
  renameSync(part, file)
  return folder
}

/** A line for each token, as the package of OpenAI has it; that of JavaScript has lines `! first token token …`. */
export function tokens(): string {
  const { bpe_ranks } = core('js-tiktoken/ranks/cl100k_base') as { bpe_ranks: string }
  return bpe_ranks
    .split('\n')
    .flatMap(line => {
      const [, first, ...all] = line.split(' ')
      return all.map((token, i) => `${token} ${Number(first) + i}\n`)
    })
    .join('')
}
