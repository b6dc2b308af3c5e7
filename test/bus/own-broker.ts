/** A NATS server with the users of production, whose configuration and files a test replaces. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Role } from '../../bus/connect.js'
import { openIssuer } from '../../bus/pool-users.js'
import { issuerSeedOf, passwordsOf, writeNatsConfig } from '../../cli/nats/config.js'
import { findNatsServer } from '../../cli/nats/server.js'
import { freePort } from '../../cli/ports.js'
import { SETTINGS } from '../../schemas/config.js'
import { BUILT_IN_APP, token } from '../../schemas/ids.js'
import { until } from '../helpers/until.js'

/** It does not run before `start`. */
export async function ownBroker() {
  const data = mkdtempSync(join(tmpdir(), 'weft-broker-'))
  const port = await freePort()
  const path = writeNatsConfig({ data, port, max_file_store: SETTINGS.max_file_store.default })
  const passwords = passwordsOf(data)
  const pool = openIssuer(issuerSeedOf(data)).userOf({ app: BUILT_IN_APP, pool: token('pool', 'default') })
  let said = ''
  let server: ChildProcess
  const start = async () => {
    said = ''
    server = spawn(await findNatsServer(), ['-c', path], { stdio: ['ignore', 'ignore', 'pipe'] })
    server.stderr!.on('data', part => (said += part))
    await until(() => said.includes('Server is ready'))
  }
  const end = async () => {
    const over = once(server, 'close')
    server.kill('SIGTERM')
    await over
  }
  return {
    data,
    address: `127.0.0.1:${port}`,
    /** Its log goes to stderr, which is read here. */
    config: readFileSync(path, 'utf8').replaceAll(/^log.*$/gm, ''),
    userOf: (role: Role) => (role === 'graphs' ? `${pool.user}:${pool.password}` : `${role}:${passwords[role]}`),
    async start(config: string) {
      writeFileSync(path, config)
      await start()
    },
    async reload() {
      said = ''
      server.kill('SIGHUP')
      await until(() => said.includes('Reloaded server configuration'))
    },
    /** `config`: another configuration. */
    async restart(config?: string) {
      await end()
      if (config !== undefined) writeFileSync(path, config)
      await start()
    },
    async stop() {
      await end()
      rmSync(data, { recursive: true, force: true })
    },
  }
}
