/** The commands of `weft`, their arguments and their flags. A command is loaded when it runs. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Command, Option } from 'commander'
import { type Config, SECRET_SETTINGS, SETTINGS } from '../schemas/config.js'
import type { RoleName } from './commands/roles.js'
import { addSize } from './commands/size-flags.js'
import { readSettings } from './read-settings.js'
import { root } from './root.js'
import { UserError } from './user-error.js'

/** The settings that flags of the server have set. */
interface ServerFlags {
  app?: string
  appId?: string
  port?: number
  host?: string
  data?: string
  pool?: string
  slots?: number
  insecure?: true
  json?: true
  tied?: true
}

const FLAGS = {
  app: ['--app <path>', 'the langgraph.json, or its folder'],
  appId: ['--app-id <name>', 'the name of the application'],
  port: ['--port <n>', 'the port of the HTTP server'],
  host: ['--host <address>', 'the address of the HTTP server'],
  data: ['--data <folder>', 'the data folder'],
  pool: ['--pool <name>', 'the pool of the graph worker'],
  slots: ['--slots <n>', 'runs that it executes at the same time'],
  insecure: ['--insecure', 'allow other machines without authentication'],
} as const
const LARGEST: { readonly [flag: string]: number } = { port: 65_535, slots: 1_000_000 }
type Flag = keyof typeof FLAGS

const ALL: readonly Flag[] = ['app', 'port', 'host', 'data', 'pool', 'slots', 'insecure']
const ROLES: readonly { name: RoleName; summary: string; flags: readonly Flag[] }[] = [
  { name: 'edge', summary: 'the HTTP server', flags: ['app', 'port', 'host', 'data', 'insecure'] },
  { name: 'resources', summary: 'a resource worker: the rules, and the store', flags: ['data'] },
  { name: 'graphs', summary: 'a graph worker: runs the graphs', flags: ['app', 'appId', 'pool', 'slots', 'data'] },
  { name: 'deployer', summary: 'the deploy worker: builds applications', flags: ['data'] },
]

/** The commands that run until a signal. */
export const SERVERS: readonly string[] = ['start', 'dev', ...ROLES.map(({ name }) => name)]

/** The commands that load the HTTP library. */
export const SERVE_HTTP: readonly string[] = ['start', 'dev', 'edge']

export function makeProgram(): Command {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  const program = new Command('weft')
    .description('An open server for LangGraph applications.')
    .version(version, '-v, --version', 'print the version')
    .exitOverride()
    // weft.ts prints the sentence.
    .configureOutput({ outputError: () => {} })
    .showSuggestionAfterError()
    .addHelpText('after', AFTER)

  program.commandsGroup('Serve:')
  server(program, 'start', 'serve an application: every role, the store and a NATS server', ALL)
    .addOption(JSON_FLAG())
    .addOption(TIED_FLAG())
    .action(async (flags: ServerFlags) => (await import('./commands/start.js')).start(configOf(flags), flags))
  server(program, 'dev', 'the same, and serve changed files of the application at once', ALL)
    .addOption(JSON_FLAG())
    .addOption(TIED_FLAG())
    .action(async (flags: ServerFlags) => {
      // Nobody waits for runs of old code.
      process.env.WEFT_STOP_MS ||= '1000'
      await (await import('./commands/start.js')).start(configOf(flags), { ...flags, dev: true })
    })
  for (const { name, summary, flags } of ROLES)
    server(program, name, summary, flags)
      .addOption(JSON_FLAG())
      .action(async (given: ServerFlags) => {
        const config = configOf(given)
        // The HTTP library reads it once, when it is loaded.
        process.env.UWS_HTTP_MAX_HEADERS_SIZE ??= '16384'
        await (await import('./commands/roles.js')).runRoles([name], config, given)
      })

  program.commandsGroup('Set up:')
  program
    .command('new')
    .description('create an application that runs without a key')
    .argument('<folder>', 'a new or an empty folder')
    .option('--python', 'in Python instead of TypeScript')
    .addOption(JSON_FLAG())
    .action(async (given, flags) => (await import('./commands/new.js')).createApplication(given, flags))
  image(program.command('dockerfile'))
    .description('write the Dockerfile of an application')
    .argument('<file>', 'where it is written')
    .action(async (file, flags) => (await import('./commands/dockerfile.js')).writeDockerfile(file, flags))
  image(program.command('build'))
    .description('build an image of an application with docker or podman')
    .requiredOption('-t, --tag <name>', 'the name of the image')
    .option('--platform <platforms>', 'as linux/amd64,linux/arm64')
    .option('--pull', 'look for newer images')
    .argument('[arguments...]', 'for the engine, after --')
    .action(async (more, flags) => (await import('./commands/build.js')).buildImage(more, flags))
  addKeys(program)
  addNats(program)
  server(program, 'doctor', 'check what Weft needs on this machine', ['app', 'data', 'port'])
    .addOption(JSON_FLAG())
    .action(async flags => (await import('./commands/doctor.js')).doctor(flags))
  program
    .command('backup')
    .description('copy the embedded store, also while the server runs')
    .argument('<target>', 'a new or an empty folder')
    .addOption(dataFolder())
    .option('--keys', 'with the generated keys, which open stored secrets')
    .addOption(JSON_FLAG())
    .action(async (target, flags) => (await import('./commands/backup.js')).backup(target, flags))
  program
    .command('restore')
    .description('put a backup in the place of the embedded store')
    .argument('<backup>', 'the folder that `weft backup` has made')
    .addOption(dataFolder())
    .option('--force', 'move an existing store aside')
    .addOption(JSON_FLAG())
    .action(async (source, flags) => (await import('./commands/backup.js')).restore(source, flags))
  addSize(program)
  program
    .command('settings')
    .description('list the variables that Weft reads')
    .addOption(JSON_FLAG())
    .action(async flags => (await import('./commands/settings.js')).listSettings(flags))
  program.commandsGroup('Use a server:')
  addClients(program)
  return program
}

function addClients(program: Command): void {
  const runs = program.command('runs').description('list, follow and cancel runs')
  client(runs.command('list'))
    .description('the newest runs, with and without a thread')
    .addOption(new Option('--status <status...>', 'some of them').choices(RUN_STATUSES))
    .option('--graph <id>', 'of one graph')
    .option('--assistant <id>', 'of one assistant')
    .option('--thread <id>', 'of one thread')
    .option('--since <time>', 'created since then: 30s, 15m, 1h, 7d, or an ISO 8601 time')
    .option('--text <text>', 'failed with an error that has this text')
    .addOption(new Option('--oldest', 'the oldest first').conflicts('watch'))
    .option('--watch', 'print runs as they come and as their status changes, until it is stopped')
    .addOption(limit())
    .action(async flags => (await import('./commands/runs.js')).listRuns(flags))
  client(runs.command('tail'))
    .description('print the events of a run until it ends')
    .argument('<run>', 'the id of the run')
    .option('--from <event>', 'the id of the last event that is not printed; -1: all', '-1')
    .action(async (given, flags) => (await import('./commands/runs.js')).tailRun(given, flags))
  client(runs.command('spans'))
    .description('print the parts of a run as a tree: nodes, models and tools, with times and tokens')
    .argument('<run>', 'the id of the run')
    .action(async (given, flags) => (await import('./commands/run-spans.js')).showSpans(given, flags))
  client(runs.command('cancel'))
    .description('cancel runs of a thread, or all with a status')
    .argument('[run...]', 'their ids')
    .option('--thread <id>', 'the thread of these runs')
    .addOption(new Option('--status <status>', 'instead of ids').choices(['pending', 'running', 'all']))
    .addOption(new Option('--action <action>').choices(['interrupt', 'rollback']).default('interrupt'))
    .action(async (given, flags) => (await import('./commands/runs.js')).cancelRuns(given, flags))

  const threads = program.command('threads').description('list, read, answer and delete threads')
  client(threads.command('list'))
    .description('the threads that changed last')
    .addOption(new Option('--status <status>').choices(['idle', 'busy', 'interrupted', 'error']))
    .option('--metadata <json>', 'those whose metadata contain this object')
    .addOption(limit())
    .action(async flags => (await import('./commands/threads.js')).listThreads(flags))
  client(threads.command('get'))
    .description('print the state of a thread')
    .argument('<thread>', 'the id of the thread')
    .action(async (given, flags) => (await import('./commands/threads.js')).getThread(given, flags))
  client(threads.command('answer'))
    .description('answer the question that a thread waits with, or show it')
    .argument('<thread>', 'the id of the thread')
    .option('--approve', 'yes: true, or the decision to approve each action')
    .option('--reject [reason]', 'no: false, or the decision to reject each action')
    .option('--value <json>', 'any other answer')
    .option('--question <id>', 'one of several questions')
    .action(async (given, flags) => (await import('./commands/answer.js')).answerThread(given, flags))
  client(threads.command('delete'))
    .description('delete threads with their runs and checkpoints')
    .argument('<thread...>', 'their ids')
    .action(async (given, flags) => (await import('./commands/threads.js')).deleteThreads(given, flags))

  client(program.command('deploy'))
    .description('build and serve a folder as a deployment of the server')
    .argument('[folder]', 'the folder of langgraph.json', '.')
    .option('--name <name>', 'the name of the deployment; that of the folder when absent')
    .option('--repo <url>', 'a repository that the server can reach, instead of the folder itself')
    .option('--ref <ref>', 'the branch, tag or commit; the current branch when absent')
    .option('--config <path>', 'the langgraph.json in the folder')
    .addOption(
      new Option('--secret <name=value>', 'a variable of the application; may be repeated; NAME alone: that of here')
        .argParser(collect)
        .default([], 'those that it has'),
    )
    .addOption(dataFolder())
    .option('--no-wait', 'do not follow the build and the rollout')
    .action(async (given, flags) => (await import('./commands/deploy.js')).deploy(given, flags))
  client(program.command('import'))
    .description('bring assistants, threads, items and crons of another LangGraph server or checkpointer')
    .argument('<source>', 'URL of a server, project of a stopped one, SQLite file, or URL of PostgreSQL')
    .option('--source-key <key>', 'key that it wants as X-Api-Key')
    .addOption(
      new Option('--source-header <header>', 'header that it wants, as "Authorization: Bearer …"; may be repeated')
        .argParser(collect)
        .default([], 'none'),
    )
    .addOption(
      new Option('--only <kind>', 'what to bring; may be repeated')
        .choices(IMPORT_KINDS)
        .argParser(collect)
        .default([], 'all'),
    )
    .option('--graph <id>', 'graph of the threads of a database that does not name one')
    .option('--no-history', 'bring the newest state of threads alone')
    .option('--state <file>', 'what was brought; the same file continues an import', 'weft-import.jsonl')
    .action(async (given, flags) => (await import('./commands/import/import.js')).importFrom(given, flags))
}

const IMPORT_KINDS = ['assistants', 'threads', 'items', 'crons']
const RUN_STATUSES = ['pending', 'running', 'success', 'error', 'timeout', 'interrupted']

const client = (command: Command): Command =>
  command
    .addOption(new Option('--url <url>', 'the server').env('WEFT_URL').default('http://127.0.0.1:2024'))
    .addOption(new Option('--key <key>', 'key for X-Api-Key').env('WEFT_KEY'))
    .addOption(JSON_FLAG())

const image = (command: Command): Command =>
  command
    .addOption(new Option('--app <path>', FLAGS.app[1]).env('WEFT_APP').default('langgraph.json'))
    .option('--base-image <image>', 'instead of base_image of langgraph.json, and of the image of this version')

const dataFolder = () => new Option('--data <folder>', 'the data folder').env('WEFT_DATA').default('.weft')
const limit = () => new Option('--limit <n>').argParser(text => wholeNumber('--limit', text, 1_000, 1)).default(20)

function addKeys(program: Command): void {
  const keys = program.command('keys').description('create, list and revoke the keys of clients')
  const command = (name: string) =>
    keys
      .command(name)
      .addOption(new Option('--data <folder>', 'the data folder of a running `weft start`, unless NATS_URL is set'))
      .addOption(new Option('--url <url>', 'the server, instead of the broker').conflicts('data'))
      .addOption(new Option('--key <key>', 'key with the scope admin, for --url').env('WEFT_KEY'))
      .addOption(JSON_FLAG())
  command('create')
    .description('create a key and print it once')
    .argument('<name>')
    .addOption(
      new Option('--scope <scope>', 'what it opens; may be repeated')
        .choices(SCOPE_NAMES)
        .argParser(collect)
        .default([]),
    )
    .option('--expires <time>', 'as 12h, 30d or 2030-01-01')
    .option('--requests-per-second <n>')
    .option('--running-runs <n>')
    .option('--open-streams <n>')
    .action(async (name, flags) => (await import('./commands/keys.js')).createKey(name, flags))
  command('list')
    .description('list all keys, oldest first')
    .action(async flags => (await import('./commands/keys.js')).listKeys(flags))
  command('revoke')
    .description('revoke a key at once')
    .argument('<id>')
    .action(async (given, flags) => (await import('./commands/keys.js')).revokeKey(given, flags))
}

function addNats(program: Command): void {
  const nats = program.command('nats').description('the users of Weft at a NATS server of your own')
  nats
    .command('init')
    .description('print new passwords and a new issuer, as NAME=value')
    .addOption(
      new Option('--pool <pool>', 'also the user of this pool, as default or app.pool; may be repeated')
        .argParser(collect)
        .default([], 'none'),
    )
    .addOption(JSON_FLAG())
    .action(async flags => (await import('./commands/nats.js')).printSecrets(flags))
  nats
    .command('config')
    .description('print the users and their rights, for the configuration of the server')
    .option('--hub', 'of a server to which leaf nodes connect')
    .option('--leaf', 'of a leaf node')
    .action(async flags => (await import('./commands/nats.js')).printConfig(flags))
  nats
    .command('user')
    .description('print name and password of the user of one pool (WEFT_NATS_ISSUER)')
    .argument('<pool>', 'the name of the pool')
    .option('--app <name>', 'the application, unless it is the built-in one')
    .addOption(JSON_FLAG())
    .action(async (pool, flags) => (await import('./commands/nats.js')).printUser(pool, flags))
}

/** The list of schemas/auth/keys.ts, whose validators the launcher must not load; a test compares them. */
export const SCOPE_NAMES = ['read', 'run', 'write', 'assistants', 'deployments', 'oauth', 'admin']
const collect = (text: string, before: string[]): string[] => [...before, text]
const TIED_FLAG = () => new Option('--tied', 'stop when standard input ends, for a program that starts it')
const JSON_FLAG = () => new Option('--json', 'print JSON')

function server(program: Command, name: string, summary: string, flags: readonly Flag[]): Command {
  const command = program.command(name).description(summary)
  for (const flag of flags) {
    const [form, help] = FLAGS[flag]
    const option = new Option(form, `${help} (${SETTINGS[camelToSnake(flag)].env})`)
    if (flag in LARGEST) option.argParser(text => wholeNumber(form.split(' ')[0]!, text, LARGEST[flag]!))
    command.addOption(option)
  }
  return command
}

const camelToSnake = (flag: Flag) => (flag === 'appId' ? 'app_id' : flag)

function wholeNumber(flag: string, text: string, largest: number, smallest = 0): number {
  const n = Number(text)
  if (!Number.isInteger(n) || n < smallest || n > largest || text === '')
    throw new UserError(`${flag} must be a whole number from ${smallest} to ${largest}, not "${text}"`, 2)
  return n
}

/** The settings of a server, which are removed from the environment when they are secret. */
function configOf({ appId: app_id, json: _json, tied: _tied, ...flags }: ServerFlags): Config {
  const config = readSettings({ ...flags, app_id })
  // Graph hosts, builds and the server process must not inherit them.
  for (const name of SECRET_SETTINGS) delete process.env[SETTINGS[name].env]
  return config
}

const AFTER = `
Flags of a command: weft help <command>. Variables (a flag wins): weft settings.
Exit codes: 0 done; 1 it failed; 2 the command line or a setting is wrong;
3 the server cannot be reached. Completion: weft complete bash|zsh|fish|powershell.`
