/** A copy of an example, as after `npm install`, with packages of this clone. */
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { root } from '../../cli/root.js'
import { lines } from '../helpers/sdk.js'

/** The folder of the copy. It has those packages of its package.json that are installed here, and the newest line of the SDK. */
export function copyExample(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `weft-${name}-`))
  const filter = (from: string) => !from.includes('node_modules')
  cpSync(join(root, 'examples', name), folder, { recursive: true, filter })
  const { dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { dependencies: object }
  const newest = `test/sdk/node_modules/${lines.at(-1)!.alias}`
  for (const name of Object.keys(dependencies)) {
    const from = join(root, name === '@langchain/langgraph-sdk' ? newest : `node_modules/${name}`)
    if (!existsSync(from)) continue
    const to = join(folder, 'node_modules', name)
    mkdirSync(dirname(to), { recursive: true })
    symlinkSync(realpathSync(from), to)
  }
  return folder
}
