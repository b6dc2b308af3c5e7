/** The command line of the bench. */
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { UserError } from '../../cli/user-error.js'
import { DATABASES, type DatabaseKind } from './database.js'
import type { Windows } from './measure.js'
import type { Scenario } from './scenario.js'
import { SCENARIOS } from './scenarios.js'
import { type Counts, ONE_EACH } from './server-apart.js'

export const HELP = `npm run bench -- [--only pattern] [--seconds n] [--rounds n] [--quick] [--json file] [--table file]
                 [--url http://127.0.0.1:PORT | --apart] [--peer in-process|dev-server|host|keys|auth|scheduling|none]… [--against folder]
                 [--python] [--store mongo|postgres] [--edges n] [--resources n] [--graphs n] [--pools n]
                 [--minutes n] [--size n] [--plot folder] [--costs file]

Measures a Weft that it starts from the build on a throw-away folder (--apart: each role in a separate process), or
the server at --url. Peers take turns with it: the graph without a server (in-process) and the JavaScript development
server (dev-server, installed into the cache); with --quick or --url none unless named. Named only: Weft with a key in every
request (keys), with an application that compares a header of every request (auth), with limits for tenants
(scheduling), and one graph host without a server (host). --against: a further peer, the
Weft of another built checkout: what a change gains or costs. --python: the same graphs in Python, with the Python library
and its development server (langgraph-cli[inmem]) as peers. --store mongo or postgres: Weft on such a server beside it
(that of MONGODB_URL or DATABASE_URI, else one as for tests). --edges, --resources, --graphs, --pools: so many processes of a role, beside one of each; with several
resource workers both use PostgreSQL, unless --store says mongo. --minutes is the length of the row memory, --size the rows of growth-…. --json says where the figures
go (.bench/), --table writes them between the markers of a page such as docs/performance.md, --plot draws them, --costs writes what
the calculator of \`weft size\` knows (with --apart). --only is a pattern over:
  ${SCENARIOS.map(({ name }) => name).join(' ')}
`

export interface Options extends Windows {
  scenarios: readonly Scenario[]
  rounds: number
  json: string | null
  table: string | null
  url: string | null
  apart: boolean
  peers: readonly string[]
  /** The graphs are Python, and so are the peers. */
  python: boolean
  /** Further subject on such a server; null: none. */
  database: DatabaseKind | null
  /** Several processes of each role, as a further subject beside one of each; null: not. */
  counts: Counts | null
  /** Folder for plots. */
  plot: string | null
  /** File for what `weft size` knows. */
  costs: string | null
  /** Root of another built checkout. */
  against: string | null
}

const PEERS = ['in-process', 'dev-server']
/** Named only: Weft with authentication or scheduling, and one graph host without a server. */
const NAMED = ['keys', 'auth', 'scheduling', 'host']

/** Throws a UserError when the command line is wrong; null for --help. */
export function optionsOf(args: string[]): Options | null {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: 'string' },
      seconds: { type: 'string' },
      rounds: { type: 'string' },
      quick: { type: 'boolean', default: false },
      json: { type: 'string' },
      table: { type: 'string' },
      url: { type: 'string' },
      apart: { type: 'boolean', default: false },
      peer: { type: 'string', multiple: true },
      against: { type: 'string' },
      python: { type: 'boolean', default: false },
      store: { type: 'string' },
      edges: { type: 'string' },
      resources: { type: 'string' },
      graphs: { type: 'string' },
      pools: { type: 'string' },
      minutes: { type: 'string' },
      size: { type: 'string' },
      plot: { type: 'string' },
      costs: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return null
  const { quick, url = null, apart, against = null } = values
  if (against !== null && !existsSync(join(against, 'dist/cli/weft.js')))
    throw new UserError(`there is no built Weft in ${against}: expected a checkout in which npm run build has run`, 2)
  const number = (name: 'seconds' | 'rounds' | 'minutes' | 'size' | keyof Counts, fallback: number, most: number) => {
    const value = Number(values[name] ?? fallback)
    if (!(value > 0) || value > most) throw new UserError(`--${name} must be a number up to ${most}`, 2)
    return value
  }
  const peers = values.peer ?? (quick || url !== null || against !== null ? [] : PEERS)
  const known = [...PEERS, ...NAMED, 'none']
  const foreign = peers.find(peer => !known.includes(peer))
  if (foreign !== undefined) throw new UserError(`there is no peer "${foreign}": expected ${known.join(', ')}`, 2)
  if (values.store !== undefined && ![...DATABASES, 'sqlite'].includes(values.store))
    throw new UserError(`there is no store "${values.store}": expected mongo, postgres or sqlite`, 2)
  const counts = countsOf(values, number)
  if (counts !== null && url !== null)
    throw new UserError('--url is a server that runs already: leave out --edges, --resources, --graphs and --pools', 2)
  if (values.costs !== undefined && !apart)
    throw new UserError('--costs needs --apart: the costs are those of each role in a process of its own', 2)
  const pattern = new RegExp(values.only ?? '')
  const scenarios = SCENARIOS.filter(
    ({ name, starts, pools }) => pattern.test(name) && !(starts && url !== null) && !(pools && !counts?.pools),
  )
  if (scenarios.length === 0) throw new UserError(`no scenario matches "${values.only}"; see --help`, 2)
  const seconds = number('seconds', quick ? 1 : 5, 60)
  return {
    scenarios,
    seconds,
    warm: quick ? 0.3 : Math.min(3, seconds),
    quick,
    rounds: Math.ceil(number('rounds', quick ? 1 : 3, 20)),
    json: values.json ?? null,
    table: values.table ?? null,
    url,
    apart,
    python: values.python,
    database: DATABASES.find(kind => kind === values.store) ?? null,
    counts,
    minutes: number('minutes', 1, 600),
    size: values.size === undefined ? null : Math.ceil(number('size', 0, 10_000_000)),
    plot: values.plot ?? null,
    costs: values.costs ?? null,
    peers: peers.filter(peer => peer !== 'none'),
    against: against === null ? null : resolve(against),
  }
}

/** The processes of each role that the flags name; null without such a flag. */
function countsOf(
  values: { readonly [name in keyof Counts]?: string | undefined },
  number: (name: keyof Counts, fallback: number, most: number) => number,
): Counts | null {
  const names = Object.keys(ONE_EACH) as (keyof Counts)[]
  if (names.every(name => values[name] === undefined)) return null
  return Object.fromEntries(
    names.map(name => [name, values[name] === undefined ? ONE_EACH[name] : Math.ceil(number(name, 1, 50))]),
  ) as unknown as Counts
}
