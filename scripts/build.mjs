// Builds the project into dist/. The folder is emptied first: a stale validator is worse than two seconds of work. The
// console is kept, because its build compares it with its sources.
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, readdirSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
for (const name of existsSync(`${root}dist`) ? readdirSync(`${root}dist`) : [])
  if (name !== 'console') rmSync(`${root}dist/${name}`, { recursive: true })

const run = (...args) => {
  const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
run('node_modules/ts-patch/bin/tspc.js', '-p', root)
run('node_modules/typescript/bin/tsc', '-p', 'console')
run('scripts/build-console.mjs')
run('scripts/build-programs.mjs')
run('node_modules/typescript/bin/tsc', '-p', 'scripts/guide/page')
run('dist/scripts/guide/build.js')
// Served by the edge, and no dependency of an installation.
for (const file of ['swagger-ui-bundle.js', 'swagger-ui-bundle.js.LICENSE.txt', 'swagger-ui.css', 'LICENSE', 'NOTICE'])
  cpSync(`${root}node_modules/swagger-ui-dist/${file}`, `${root}dist/edge/openapi/viewer/${file}`)
