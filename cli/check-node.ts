/**
 * Ends the process with one sentence when its Node.js is outside of `engines` in package.json. weft.ts imports this file
 * first: the HTTP library has a native part per version and fails to load with an obscure message.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** The sentence; null when the version fits. `range` is ">=20.19 <23". */
export function unsupportedNode(version: string, range: string): string | null {
  const limits = /^>=(\d+)\.(\d+) <(\d+)$/.exec(range)
  if (limits === null) throw new Error(`engines.node of package.json is "${range}", expected ">=20.19 <23"`)
  const [oldest, minor, below] = limits.slice(1).map(Number) as [number, number, number]
  const [major = 0, itsMinor = 0] = version.split('.').map(Number)
  if (major < below && (major > oldest || (major === oldest && itsMinor >= minor))) return null
  return `Weft needs Node.js ${oldest}.${minor} or newer, below ${below}; this is Node.js ${version}: install Node.js ${below - 1}`
}

const path = fileURLToPath(new URL('../../package.json', import.meta.url))
const { engines } = JSON.parse(readFileSync(path, 'utf8')) as { engines: { node: string } }
const sentence = unsupportedNode(process.versions.node, engines.node)
if (sentence !== null) {
  process.stderr.write(`weft: ${sentence}\n`)
  process.exit(2)
}
