/**
 * Ends the process with one sentence when its Node.js is outside of `engines` in package.json. weft.ts imports this file
 * first: an old one fails to load the rest with an obscure message.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** The sentence; null when the version fits. `range` is "^20.19 || ^22 || >=24". */
export function unsupportedNode(version: string, range: string): string | null {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  for (const part of range.split(' || ')) {
    const limits = /^(\^|>=)(\d+)(?:\.(\d+))?$/.exec(part)
    if (limits === null) throw new Error(`engines.node of package.json is "${range}", expected "^20.19 || ^22 || >=24"`)
    const [line, oldest] = [Number(limits[2]), Number(limits[3] ?? 0)]
    if ((major === line && minor >= oldest) || (limits[1] === '>=' && major > line)) return null
  }
  const lines = range.split(' || ').map(part => part.replace(/^\^(.*)/, '$1').replace(/^>=(.*)/, '$1 or newer'))
  return `Weft needs Node.js ${lines.join(', ')}; this is Node.js ${version}: install Node.js 24`
}

const path = fileURLToPath(new URL('../../package.json', import.meta.url))
const { engines } = JSON.parse(readFileSync(path, 'utf8')) as { engines: { node: string } }
const sentence = unsupportedNode(process.versions.node, engines.node)
if (sentence !== null) {
  process.stderr.write(`weft: ${sentence}\n`)
  process.exit(2)
}
