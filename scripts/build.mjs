// Builds the project into dist/. The folder is emptied first: a stale validator is worse than two seconds of work.
import { spawnSync } from 'node:child_process'
import { cpSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
rmSync(`${root}dist`, { recursive: true, force: true })
const { status } = spawnSync(process.execPath, [`${root}node_modules/ts-patch/bin/tspc.js`, '-p', root], {
  stdio: 'inherit',
})
// Served by the edge, and no dependency of an installation.
for (const file of ['swagger-ui-bundle.js', 'swagger-ui-bundle.js.LICENSE.txt', 'swagger-ui.css', 'LICENSE', 'NOTICE'])
  cpSync(`${root}node_modules/swagger-ui-dist/${file}`, `${root}dist/edge/openapi/viewer/${file}`)
process.exit(status ?? 1)
