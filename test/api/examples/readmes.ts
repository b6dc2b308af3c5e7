/** The code of the README of an example, which the tests run as its client. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { root } from '../../../cli/root.js'

const run = promisify(execFile)

export interface ReadmeBlock {
  language: string
  code: string
  /** Its output, when the README says it. */
  prints: string | undefined
}

/** The code in JavaScript and Python of the README of `examples/<name>`. */
export const readmeOf = (name: string): ReadmeBlock[] =>
  [
    ...readFileSync(join(root, 'examples', name, 'README.md'), 'utf8').matchAll(
      /```(js|python)\n(.*?)```(?:\n\nprints\n\n```text\n(.*?)```)?/gs,
    ),
  ].map(([, language = '', code = '', prints]) => ({ language, code, prints }))

/** The output of the code against `url`: in Python with `python`, in JavaScript with this line of the SDK. */
export async function execute(
  { language, code }: ReadmeBlock,
  url: string,
  python: string,
  alias: string,
): Promise<string> {
  const here = code.replaceAll('http://127.0.0.1:2024', url).replace("'@langchain/langgraph-sdk'", `'${alias}'`)
  const [program, args] =
    language === 'python' ? [python, ['-c', here]] : [process.execPath, ['--input-type=module', '-e', here]]
  const { stdout } = await run(program, args, { cwd: join(root, 'test/sdk'), timeout: 60_000 })
  return stdout
}
