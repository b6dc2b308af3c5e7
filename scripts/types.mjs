// Checks the types of all sources with the native compiler of TypeScript 7. The build does not: esbuild removes types, and
// schemas/ is compiled by TypeScript 6, for which typia generates validators.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const projects = ['.', 'console', 'scripts/guide/page']
const check = project =>
  spawnSync(process.execPath, ['node_modules/typescript-7/bin/tsc', '--noEmit', '-p', project], {
    cwd: root,
    stdio: 'inherit',
  }).status ?? 1
process.exit(Math.max(...projects.map(check)))
