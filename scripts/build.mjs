// Builds the project into dist/. The folder is emptied first: a stale validator is worse than two seconds of work.
import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
rmSync(`${root}dist`, { recursive: true, force: true })
const { status } = spawnSync(process.execPath, [`${root}node_modules/ts-patch/bin/tspc.js`, '-p', root], {
  stdio: 'inherit',
})
process.exit(status ?? 1)
