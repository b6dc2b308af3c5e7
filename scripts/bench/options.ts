/** The command line of the bench. */
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { UserError } from '../user-error.js'
import type { Windows } from './measure.js'
import type { Scenario } from './scenario.js'
import { SCENARIOS } from './scenarios.js'

export const HELP = `npm run bench -- [--only pattern] [--seconds n] [--rounds n] [--quick] [--json file] [--table file]
                 [--url http://127.0.0.1:PORT | --apart] [--peer in-process|dev-server|keys|auth|none]… [--against folder]

Measures a Weft that it starts from the build on a throw-away folder (--apart: each role in a separate process), or
the server at --url. Peers take turns with it: the graph without a server (in-process) and the JavaScript development
server (dev-server, installed into the cache); with --quick or --url none unless named. Named only: Weft with a key in every
request (keys), and with an application that compares a header of every request (auth). --against: a further peer, the
Weft of another built checkout: what a change gains or costs. --json says where the figures
go (.bench/), --table writes them between the markers of a page such as docs/performance.md. --only is a pattern over:
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
  /** Root of another built checkout. */
  against: string | null
}

const PEERS = ['in-process', 'dev-server']
/** Weft with authentication: named only. */
const GUARDED = ['keys', 'auth']

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
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return null
  const { quick, url = null, apart, against = null } = values
  if (against !== null && !existsSync(join(against, 'dist/scripts/weft.js')))
    throw new UserError(`there is no built Weft in ${against}: expected a checkout in which npm run build has run`, 2)
  const number = (name: 'seconds' | 'rounds', fallback: number, most: number) => {
    const value = Number(values[name] ?? fallback)
    if (!(value > 0) || value > most) throw new UserError(`--${name} must be a number up to ${most}`, 2)
    return value
  }
  const peers = values.peer ?? (quick || url !== null || against !== null ? [] : PEERS)
  const known = [...PEERS, ...GUARDED, 'none']
  const foreign = peers.find(peer => !known.includes(peer))
  if (foreign !== undefined) throw new UserError(`there is no peer "${foreign}": expected ${known.join(', ')}`, 2)
  const pattern = new RegExp(values.only ?? '')
  const scenarios = SCENARIOS.filter(({ name, starts }) => pattern.test(name) && !(starts && url !== null))
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
    peers: peers.filter(peer => peer !== 'none'),
    against: against === null ? null : resolve(against),
  }
}
