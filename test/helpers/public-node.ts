/** The Node.js on PATH, for other users of the machine: that of the tests may be in a folder of root. */
import { execFileSync } from 'node:child_process'

export const PUBLIC_NODE = execFileSync('sh', ['-c', 'command -v node'], { encoding: 'utf8' }).trim()
