/** `weft keys`: makes, lists and revokes the keys of clients, by calls to a resource worker or, with --url, over HTTP. */
import { resolve } from 'node:path'
import { openCaller } from '../../bus/call.js'
import { type Link, openLink, receivesAnswers, tlsFilesOf } from '../../bus/connect.js'
import { openLog } from '../../bus/log.js'
import {
  type KeyCreate,
  type KeyCreated,
  type KeyInfo,
  type KeyPage,
  type KeyRevoked,
  SCOPES,
  type Scope,
} from '../../schemas/auth/keys.js'
import type { CallHead } from '../../schemas/calls.js'
import { WeftError } from '../../schemas/errors.js'
import { rpc } from '../../schemas/subjects.js'
import { natsUrlOf } from '../nats/process.js'
import { readSettings } from '../read-settings.js'
import { printJson, printTable } from '../terminal/text.js'
import { UserError } from '../user-error.js'
import { openClient, UNREACHABLE } from './client.js'

export interface KeyFlags {
  data?: string
  url?: string
  key?: string
  json?: true
}
interface CreateFlags extends KeyFlags {
  scope: string[]
  expires?: string
  requestsPerSecond?: string
  runningRuns?: string
  openStreams?: string
}

type Call = (verb: string, head?: Partial<CallHead>, body?: object) => Promise<unknown>

/** Creates a key; stdout gets the key alone. Throws a UserError with one sentence, as the two below. */
export async function createKey(name: string, flags: CreateFlags): Promise<void> {
  const wanted = creation(name, flags)
  await withCalls(flags, async call => show((await call('create', {}, wanted)) as KeyCreated, flags))
}

export const listKeys = (flags: KeyFlags): Promise<void> =>
  withCalls(flags, async call => {
    const all = await readAll(call)
    if (flags.json) printJson(all)
    else list(all)
  })

export const revokeKey = (key_id: string, flags: KeyFlags): Promise<void> =>
  withCalls(flags, async call => {
    const { paused_crons } = (await call('revoke', { params: { key_id } })) as KeyRevoked
    if (flags.json) printJson({ id: key_id, revoked: true, paused_crons })
    else
      process.stdout.write(
        `revoked ${key_id}: it opens nothing from now on, and its open streams end within a minute\n${cronsText(paused_crons)}`,
      )
  })

function cronsText(paused: number | null): string {
  if (paused === null) return 'its crons could not be read now: each is paused at its next time\n'
  if (paused === 0) return ''
  return `paused ${paused === 1 ? 'one cron' : `${paused} crons`} that fired with it: enabling a cron makes it fire with the caller's own key\n`
}

function creation(name: string, flags: CreateFlags): KeyCreate {
  const scopes = flags.scope
  const unknown = scopes.find(scope => !(SCOPES as readonly string[]).includes(scope))
  if (scopes.length === 0 || unknown !== undefined)
    throw new UserError(
      `--scope must be one of ${SCOPES.join(', ')}${unknown === undefined ? '' : `, not "${unknown}"`}`,
      2,
    )
  return {
    name,
    scopes: scopes as Scope[],
    expires_at: expiryOf(flags.expires),
    limits: {
      requests_per_second: limitOf('requests-per-second', flags.requestsPerSecond, /^\d+(\.\d+)?$/),
      running_runs: limitOf('running-runs', flags.runningRuns, /^\d+$/),
      open_streams: limitOf('open-streams', flags.openStreams, /^\d+$/),
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

function limitOf(flag: string, text: string | undefined, form: RegExp): number | null {
  if (text === undefined) return null
  if (!form.test(text) || Number(text) <= 0) throw new UserError(`--${flag} must be a number above 0, not "${text}"`, 2)
  return Number(text)
}

const METHODS: { [verb: string]: string } = { create: 'POST', list: 'GET', revoke: 'DELETE' }

function callsOverHttp(url: string, key: string | undefined): Call {
  const client = openClient({ url, ...(key === undefined ? {} : { key }) })
  return (verb, { params, query } = {}, body) => {
    const path = params === undefined ? '/v2/keys' : `/v2/keys/${encodeURIComponent(params.key_id!)}`
    return client.ask(
      METHODS[verb]!,
      query === undefined ? path : `${path}?${query}`,
      body === undefined ? {} : { body },
    )
  }
}

/** Calls the server of --url, or connects to the broker of NATS_URL, or to that of a `weft start` on the data folder. */
async function withCalls({ data, url, key }: KeyFlags, work: (call: Call) => Promise<void> | void): Promise<void> {
  if (url !== undefined) return work(callsOverHttp(url, key))
  const link = await openBroker(data)
  const caller = openCaller(link)
  try {
    await work(async (verb, head, body) => {
      const bytes = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
      const whole = { ...head, request_id: `keys-${verb}`, by: 'command' }
      const answer = await caller.ask(rpc('keys', verb), whole, bytes)
      return answer.body.length === 0 ? null : JSON.parse(Buffer.from(answer.body).toString())
    })
  } catch (error) {
    if (error instanceof WeftError) throw new UserError(error.message, error.code === 'unavailable' ? UNREACHABLE : 1)
    throw error
  } finally {
    caller.close()
    await link.close()
  }
}

/** Throws a UserError when answers would not arrive: the text of a new key would be lost. */
async function openBroker(data: string | undefined): Promise<Link> {
  const config = readSettings({ data })
  let link: Link
  try {
    const url = config.nats_url || natsUrlOf(config.data, 'resources')
    // Edges may make these calls, too.
    const role = userOf(url) === 'edge' ? 'edge' : 'resources'
    link = await openLink({ url, role, log: openLog('keys', 'silent'), tls: tlsFilesOf(config) })
  } catch (error) {
    const nobody = `no server runs on the data folder ${resolve(config.data)}: start it with \`weft start\`, or name another folder with --data`
    throw new UserError(config.nats_url === '' ? nobody : (error as Error).message, UNREACHABLE)
  }
  if (await receivesAnswers(link)) return link
  await link.close()
  throw new UserError(
    `the user "${userOf(config.nats_url)}" in NATS_URL may not manage keys: use "resources" or "edge", or call the server with --url and --key`,
    2,
  )
}

const userOf = (url: string): string => /^\w+:\/\/([^:@/,]*)[^/,]*@/.exec(url)?.[1] ?? ''

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

function show(created: KeyCreated, { json }: KeyFlags): void {
  const { key, id, expires_at } = created
  const note = process.env.WEFT_REQUIRE_KEYS
    ? ''
    : '\nThe server asks for keys only when it is started with WEFT_REQUIRE_KEYS=1.'
  process.stderr.write(`Key ${id}${expires_at === null ? '' : `, until ${expires_at}`}. It is shown only now:${note}\n`)
  if (json) printJson(created)
  else process.stdout.write(`${key}\n`)
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
  printTable(['id', 'name', 'scopes', 'expires', 'last used', 'limits'], rows)
}
