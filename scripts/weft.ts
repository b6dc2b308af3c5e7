#!/usr/bin/env node
/**
 * The command `weft`. It imports no library: the launcher of `weft start` stays small, and only the process that runs
 * the roles loads them. Exit code 2: the command line or a setting is wrong; 1: something failed.
 */
// First, before anything that an unsupported Node.js cannot load.
import './check-node.js'
import { parseArgs } from 'node:util'
import { type Config, readConfig, SECRET_SETTINGS, SETTINGS } from '../schemas/config.js'
import type { RoleName } from './commands/roles.js'
import { start } from './commands/start.js'
import { UserError } from './user-error.js'

const OPTIONS = {
  app: { type: 'string' },
  'app-id': { type: 'string' },
  port: { type: 'string' },
  host: { type: 'string' },
  data: { type: 'string' },
  pool: { type: 'string' },
  slots: { type: 'string' },
  insecure: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'v' },
} as const

type Flag = keyof typeof OPTIONS
const FLAGS: { [command: string]: readonly Flag[] } = {
  start: ['app', 'port', 'host', 'data', 'pool', 'slots', 'insecure'],
  edge: ['app', 'port', 'host', 'data', 'insecure'],
  resources: ['data'],
  graphs: ['app', 'app-id', 'pool', 'slots', 'data'],
  deployer: ['data'],
}

const HELP = `weft: an open server for LangGraph applications

  weft start [--app path] [--port n] [--host h] [--data dir] [--pool p] [--slots n] [--insecure]
      Everything on this machine: edge, resource worker, graph worker, embedded store, NATS server.
  weft edge [--app path] [--port n] [--host h] [--insecure]
  weft resources
  weft graphs [--app path] [--app-id name] [--pool p] [--slots n]
  weft deployer
      One role, at the NATS server of NATS_URL, or (--data) at that of a \`weft start\` on this machine.
  weft keys create <name> --scope <scope> [--scope …] [--expires 30d | 2030-01-01] [--requests-per-second n]
            [--running-runs n] [--open-streams n]
  weft keys list
  weft keys revoke <id>
      Keys of clients; the server asks for them with WEFT_REQUIRE_KEYS=1.
      Scopes: read, run, write, assistants, deployments, admin.
  weft new <folder> [--python]
      A new application that runs without a key, in TypeScript or Python.
  weft help, weft --version

Variables (a flag wins):
${Object.values(SETTINGS)
  .map(({ env, default: fallback, doc }) => `  ${env.padEnd(28)} ${doc}${fallback === '' ? '' : ` [${fallback}]`}`)
  .join('\n')}
  ${'WEFT_NATS_SERVER'.padEnd(28)} Path of the nats-server to start.
  ${'WEFT_NATS_MONITOR'.padEnd(28)} Port of its monitoring pages on 127.0.0.1; none when empty.
`

async function main(args: string[]): Promise<void> {
  if (args[0] === 'keys' && !args.includes('--help')) return (await import('./commands/keys.js')).keys(args.slice(1))
  if (args[0] === 'new' && !args.includes('--help'))
    return (await import('./commands/new.js')).createApplication(args.slice(1))
  const { command, values } = read(args)
  if (command === 'help') return void process.stdout.write(HELP)
  if (command === 'version') {
    const { readVersions } = await import('../bus/versions.js')
    return void process.stdout.write(`${readVersions().weft}\n`)
  }
  const config = configOf(values)
  // Graph hosts, builds and the server process must not inherit them.
  for (const name of SECRET_SETTINGS) delete process.env[SETTINGS[name].env]
  if (command === 'start') return start(config)
  // The HTTP library reads it once, when it is loaded.
  process.env.UWS_HTTP_MAX_HEADERS_SIZE ??= '16384'
  const { runRoles } = await import('./commands/roles.js')
  await runRoles([command as RoleName], config)
}

function read(args: string[]): { command: string; values: { [K in Flag]?: string | boolean } } {
  let parsed: ReturnType<typeof parse>
  try {
    parsed = parse(args)
  } catch (error) {
    throw new UserError(`${(error as Error).message.split('. ')[0]}; see \`weft help\``, 2)
  }
  const { values, positionals } = parsed
  const [command = 'help', extra] = positionals
  if (values.version) return { command: 'version', values }
  if (values.help || command === 'help') return { command: 'help', values }
  const allowed = FLAGS[command]
  if (allowed === undefined) throw new UserError(`there is no command "${command}"; see \`weft help\``, 2)
  if (extra !== undefined) throw new UserError(`weft ${command} takes no argument "${extra}"; see \`weft help\``, 2)
  const foreign = Object.keys(values).find(flag => !allowed.includes(flag as Flag))
  if (foreign !== undefined) throw new UserError(`weft ${command} has no flag --${foreign}; see \`weft help\``, 2)
  return { command, values }
}

const parse = (args: string[]) => parseArgs({ args, options: OPTIONS, allowPositionals: true })

function configOf({
  app,
  'app-id': app_id,
  port,
  host,
  data,
  pool,
  slots,
  insecure,
}: { [K in Flag]?: string | boolean }): Config {
  const text = (value: string | boolean | undefined) => (typeof value === 'string' ? value : undefined)
  const number = (flag: string, value: string | boolean | undefined, most: number) => {
    if (value === undefined) return undefined
    const n = Number(value)
    if (!Number.isInteger(n) || n < 0 || n > most || value === '')
      throw new UserError(`--${flag} must be a whole number from 0 to ${most}, not "${value}"`, 2)
    return n
  }
  try {
    return readConfig(process.env, {
      app: text(app),
      app_id: text(app_id),
      host: text(host),
      data: text(data),
      pool: text(pool),
      port: number('port', port, 65_535),
      slots: number('slots', slots, 1_000_000),
      ...(insecure === true ? { insecure } : {}),
    })
  } catch (error) {
    if (error instanceof RangeError) throw new UserError(error.message, 2)
    throw error
  }
}

try {
  await main(process.argv.slice(2))
} catch (error) {
  const known = error instanceof UserError
  process.stderr.write(`weft: ${(error as Error).message}\n`)
  if (!known && process.env.LOG_LEVEL === 'debug') process.stderr.write(`${(error as Error).stack}\n`)
  process.exit(known ? error.exitCode : 1)
}
