/** The official development server of an application's language: what fails there, too, is no defect of Weft. */
import { spawn } from 'node:child_process'
import { openSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../../cli/ports.js'
import { endsWithUs, plainEnv, stopAll } from '../../scripts/bench/server.js'
import { packagesOf } from './install.js'

const START_MS = 120_000
/** It reads schemas from types, which takes more than its default of 30 s for `createSupervisor` on two cores. */
const SCHEMAS_MS = 55_000

export async function startOfficial({ app, env }: { app: string; env: { [name: string]: string } }) {
  const port = await freePort()
  const log = join(app, 'official.log')
  const out = openSync(log, 'a')
  const program = env.WEFT_PYTHON
    ? join(dirname(env.WEFT_PYTHON), 'langgraph')
    : join(await packagesOf('javascript'), 'node_modules/.bin/langgraphjs')
  const args = ['dev', '--no-browser', '--host', '127.0.0.1', '--port', `${port}`]
  const child = endsWithUs(
    spawn(program, env.WEFT_PYTHON ? [...args, '--no-reload', '--allow-blocking'] : args, {
      cwd: app,
      stdio: ['ignore', out, out],
      env: { ...plainEnv(), LANGGRAPH_SCHEMA_RESOLVE_TIMEOUT_MS: `${SCHEMAS_MS}`, ...env },
    }),
  )
  const url = `http://127.0.0.1:${port}`
  const server = { url, stop: () => stopAll([child], app) }
  for (const deadline = Date.now() + START_MS; ; await sleep(200)) {
    if (
      await fetch(`${url}/ok`).then(
        ({ ok }) => ok,
        () => false,
      )
    )
      return server
    if (child.exitCode === null && Date.now() < deadline) continue
    const said = readFileSync(log, 'utf8').slice(-1_000)
    await server.stop()
    throw new Error(`the official server did not start: ${said}`)
  }
}
