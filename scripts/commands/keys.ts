/** `weft keys`: makes, lists and revokes the keys of clients, by calls to a resource worker. */
import { parseArgs } from 'node:util'
import { openCaller } from '../../bus/call.js'
import { openLink, tlsFilesOf } from '../../bus/connect.js'
import { openLog } from '../../bus/log.js'
import {
  type KeyCreate,
  type KeyCreated,
  type KeyInfo,
  type KeyPage,
  SCOPES,
  type Scope,
} from '../../schemas/auth/keys.js'
import type { CallHead } from '../../schemas/calls.js'
import { readConfig } from '../../schemas/config.js'
import { WeftError } from '../../schemas/errors.js'
import { rpc } from '../../schemas/subjects.js'
import { natsUrlOf } from '../nats/process.js'
import { UserError } from '../user-error.js'

const OPTIONS = {
  data: { type: 'string' },
  scope: { type: 'string', multiple: true },
  expires: { type: 'string' },
  'requests-per-second': { type: 'string' },
  'running-runs': { type: 'string' },
  'open-streams': { type: 'string' },
} as const

type Values = ReturnType<typeof parse>['values']
type Call = (verb: string, head?: Partial<CallHead>, body?: object) => Promise<unknown>

/** Carries out one command. Throws a UserError with one sentence. */
export async function keys(args: string[]): Promise<void> {
  const { positionals, values } = parse(args)
  const [verb = '', argument, extra] = positionals
  if (
    extra !== undefined ||
    !['create', 'list', 'revoke'].includes(verb) ||
    (verb === 'list') !== (argument === undefined)
  )
    throw new UserError(
      `expected \`weft keys create <name>\`, \`weft keys list\` or \`weft keys revoke <id>\`; see \`weft help\``,
      2,
    )
  const wanted = verb === 'create' ? creation(argument!, values) : null
  await withCalls(values.data, async call => {
    if (wanted !== null) return show((await call('create', {}, wanted)) as KeyCreated)
    if (verb === 'list') return list(await readAll(call))
    await call('revoke', { params: { key_id: argument! } })
    process.stdout.write(
      `revoked ${argument}: it opens nothing from now on, and its open streams end within a minute\n`,
    )
  })
}

function parse(args: string[]) {
  try {
    return parseArgs({ args, options: OPTIONS, allowPositionals: true })
  } catch (error) {
    throw new UserError(`${(error as Error).message.split('. ')[0]}; see \`weft help\``, 2)
  }
}

function creation(name: string, values: Values): KeyCreate {
  const scopes = values.scope ?? []
  const unknown = scopes.find(scope => !(SCOPES as readonly string[]).includes(scope))
  if (scopes.length === 0 || unknown !== undefined)
    throw new UserError(
      `--scope must be one of ${SCOPES.join(', ')}${unknown === undefined ? '' : `, not "${unknown}"`}`,
      2,
    )
  return {
    name,
    scopes: scopes as Scope[],
    expires_at: expiryOf(values.expires),
    limits: {
      requests_per_second: limitOf(values, 'requests-per-second', /^\d+(\.\d+)?$/),
      running_runs: limitOf(values, 'running-runs', /^\d+$/),
      open_streams: limitOf(values, 'open-streams', /^\d+$/),
    },
  }
}

const UNITS: { [unit: string]: number } = { h: 3_600_000, d: 24 * 3_600_000 }

/** A time from now, or a date and time of ISO 8601. */
function expiryOf(text: string | undefined): string | null {
  if (text === undefined) return null
  const [, count, unit] = /^(\d{1,6})([hd])$/.exec(text) ?? []
  const at = unit === undefined ? Date.parse(text) : Date.now() + Number(count) * UNITS[unit]!
  if (Number.isNaN(at)) throw new UserError(`--expires must be as 12h, 30d or 2030-01-01, not "${text}"`, 2)
  return new Date(at).toISOString()
}

function limitOf(values: Values, flag: 'requests-per-second' | 'running-runs' | 'open-streams', form: RegExp) {
  const text = values[flag]
  if (text === undefined) return null
  if (!form.test(text) || Number(text) <= 0) throw new UserError(`--${flag} must be a number above 0, not "${text}"`, 2)
  return Number(text)
}

/** Connects to the broker of NATS_URL, or of a `weft start` on the data folder. */
async function withCalls(data: string | undefined, work: (call: Call) => Promise<void> | void): Promise<void> {
  const config = readConfig(process.env, { data })
  const log = openLog('keys', 'silent')
  const url = config.nats_url || natsUrlOf(config.data, 'resources')
  const link = await openLink({ url, role: 'resources', log, tls: tlsFilesOf(config) })
  const caller = openCaller(link)
  try {
    await work(async (verb, head, body) => {
      const bytes = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
      const whole = { ...head, request_id: `keys-${verb}`, by: 'command' }
      const answer = await caller.ask(rpc('keys', verb), whole, bytes)
      return answer.body.length === 0 ? null : JSON.parse(Buffer.from(answer.body).toString())
    })
  } catch (error) {
    if (error instanceof WeftError) throw new UserError(error.message, 1)
    throw error
  } finally {
    caller.close()
    await link.close()
  }
}

const PAGE = 100

/** Every key, oldest first. */
async function readAll(call: Call): Promise<KeyInfo[]> {
  const all: KeyInfo[] = []
  for (let offset = 0; ; ) {
    const page = (await call('list', { query: `limit=${PAGE}&offset=${offset}` })) as KeyPage
    all.push(...page.resources)
    if (page.resources.length < PAGE) return all.reverse()
    offset = page.offset
  }
}

function show({ key, id, expires_at }: KeyCreated): void {
  const note = process.env.WEFT_REQUIRE_KEYS
    ? ''
    : '\nThe server asks for keys only when it is started with WEFT_REQUIRE_KEYS=1.'
  process.stderr.write(`Key ${id}${expires_at === null ? '' : `, until ${expires_at}`}. It is shown only now:${note}\n`)
  process.stdout.write(`${key}\n`)
}

function list(all: readonly KeyInfo[]): void {
  const rows = all.map(({ id, name, scopes, expires_at, last_used_at, limits }) => [
    id,
    name,
    scopes.join(','),
    expires_at ?? 'never',
    last_used_at ?? 'never',
    Object.entries(limits)
      .flatMap(([limit, value]) => (value === null ? [] : `${limit}=${value}`))
      .join(',') || 'none',
  ])
  const table = [['id', 'name', 'scopes', 'expires', 'last used', 'limits'], ...rows]
  const widths = table[0]!.map((_, column) => Math.max(...table.map(row => row[column]!.length)))
  for (const row of table)
    process.stdout.write(
      `${row
        .map((cell, i) => cell.padEnd(widths[i]!))
        .join('  ')
        .trimEnd()}\n`,
    )
}
