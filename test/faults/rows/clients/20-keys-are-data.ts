import { randomUUID } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { anyObject } from '../../../helpers/hostile-bodies.js'
import type { Row } from '../../harness/row.js'
import type { Stage } from '../../harness/stage.js'

const AT_ONCE = 16
/** A filter that a database would execute. */
const FILTER = { owner: { $ne: null } }
const OTHER_OWNERS = ['a', null, {}, { $ne: 1 }, { $exists: true }, [{ $ne: null }], undefined]

const STATE = 'the state of a thread'

type Call = <T>(method: string, path: string, body?: unknown) => Promise<T>
type Ids = { [id: string]: string }

/** Where a client stores JSON, and how it reads it again. */
const PLACES: { readonly [place: string]: (call: Call, value: object) => Promise<unknown> } = {
  async metadata(call, value) {
    const { thread_id } = await call<Ids>('POST', '/threads', { metadata: value })
    return (await call<{ metadata: object }>('GET', `/threads/${thread_id}`)).metadata
  },
  async config(call, value) {
    const body = { graph_id: 'echo', config: { configurable: value } }
    const { assistant_id } = await call<Ids>('POST', '/assistants', body)
    return (await call<{ config: { configurable: object } }>('GET', `/assistants/${assistant_id}`)).config.configurable
  },
  async 'the item store'(call, value) {
    const key = randomUUID()
    await call('PUT', '/store/items', { namespace: ['keys'], key, value })
    return (await call<{ value: object }>('GET', `/store/items?namespace=keys&key=${key}`)).value
  },
  async [STATE](call, value) {
    const { thread_id } = await call<Ids>('POST', '/threads', { metadata: { graph_id: 'echo' } })
    await call('POST', `/threads/${thread_id}/state`, { values: { text: value }, as_node: 'node' })
    return (await call<{ values: { text: object } }>('GET', `/threads/${thread_id}/state`)).values.text
  },
}

export const row: Row = {
  number: 20,
  name: 'Keys are data',
  fault:
    'Random JSON values with the keys `__proto__`, `constructor`, `$where`, `a.b` and the empty one in metadata, config, the ' +
    'item store and the state of a thread; a filter that is an operator of a database.',
  promised:
    'Every value is returned equal, but for lone surrogates in a state, which become U+FFFD; no process gets a member of another object; the filter `{"owner":{"$ne":null}}` finds ' +
    'only rows whose value is that object.',
  async run(stage) {
    const count = stage.size(200, 5_000)
    const watch = watchPrototype(stage)
    const roles = await stage.roles({
      edges: 1,
      graphs: 1,
      app: 'test/apps/basic',
      env: { NODE_OPTIONS: watch.option, LOG_LEVEL: 'error' },
    })
    const url = roles.urls[0]!
    const call: Call = async <T>(method: string, path: string, body?: unknown) => {
      const answer = await stage.ledger.call<T>({ url, method, path, body })
      if (answer.outcome !== 'ok') throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
      return answer.body as T
    }

    // The one that would pollute: every process copies it on its way.
    const polluting = JSON.parse('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}') as object
    const values = [polluting, ...fc.sample(anyObject, { seed: stage.random.seed, numRuns: count - 1 })]
    const wrong: string[] = []
    const one = async (value: object) => {
      for (const [place, trip] of Object.entries(PLACES)) {
        const back = await trip(call, value).catch((error: Error) => error)
        if (isDeepStrictEqual(back, place === STATE ? wellFormed(value) : value)) continue
        const got = back instanceof Error ? back.message : JSON.stringify(back)
        wrong.push(`${place}: ${JSON.stringify(value)} became ${got}`)
      }
    }
    let next = 0
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        while (next < count) await one(values[next++]!)
      }),
    )
    // The input and the output of a graph.
    const run = { assistant_id: 'echo', input: { text: polluting }, metadata: polluting }
    const { seen } = await call<{ seen: object }>('POST', '/runs/wait', run)
    stage.expect(isDeepStrictEqual(seen, polluting), `a graph got ${JSON.stringify(seen)}`)
    stage.expect(wrong.length === 0, `${wrong.length} values were not returned equal: ${wrong[0]?.slice(0, 300)}`)
    for (const line of wrong.slice(0, 20)) stage.say(`  ${line.slice(0, 1_000)}`)

    const found = await findByFilter(stage, call)
    const processes = watch.watched()
    for (const [role, all] of Object.entries({ edge: roles.edges, resources: roles.resources, graphs: roles.graphs }))
      stage.expect(
        all.every(({ pid }) => processes.includes(pid)),
        `a process of ${role} was not watched`,
      )
    const polluted = watch.polluted()
    stage.expect(polluted.length === 0, `Object.prototype of ${polluted.length} processes has a member more`)
    return {
      load: `${count} values in ${Object.keys(PLACES).join(', ')}`,
      measured:
        `${wrong.length} of ${count * Object.keys(PLACES).length} were not equal; the filter found ${found}; ` +
        `Object.prototype changed in ${polluted.length} of ${new Set(processes).size} processes`,
    }
  },
}

/** States are rendered without lone surrogates. */
function wellFormed(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed()
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(wellFormed)
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key.toWellFormed(), wellFormed(inner)]))
}

/** Rows of three kinds with other owners and one with this object: each search finds the one. The text is for the page. */
async function findByFilter(stage: Stage, call: Call): Promise<string> {
  const yearly = '0 0 1 1 *'
  const kinds: [path: string, id: string, body: object][] = [
    ['/threads', 'thread_id', {}],
    ['/assistants', 'assistant_id', { graph_id: 'echo' }],
    ['/runs/crons', 'cron_id', { assistant_id: 'echo', schedule: yearly }],
  ]
  const counts: string[] = []
  for (const [path, id, body] of kinds) {
    const create = (owner: unknown) => call<Ids>('POST', path, { ...body, metadata: { owner } })
    for (const owner of OTHER_OWNERS) await create(owner)
    const wanted = await create(FILTER.owner)
    const found = await call<Ids[]>('POST', `${path}/search`, { metadata: FILTER, limit: 100 })
    const ids = found.map(row => row[id])
    stage.expect(ids.join() === wanted[id], `${path}/search found ${ids.length} rows in place of one`)
    const number = await call<number>('POST', `${path}/count`, { metadata: FILTER })
    stage.expect(number === 1, `${path}/count counted ${number} rows in place of one`)
    counts.push(`${ids.length} of ${OTHER_OWNERS.length + 1} ${path.split('/').at(-1)}`)
  }
  return counts.join(', ')
}

/** Code that each process loads first: it notes in a file that it watches, and when a plain object has the member. */
function watchPrototype({ folder }: Stage) {
  const file = join(folder, 'prototype.log')
  const code = `
    import { appendFileSync } from 'node:fs'
    const note = what => appendFileSync(${JSON.stringify(file)}, what + ' ' + process.pid + '\\n')
    note('watched')
    const timer = setInterval(() => {
      if ({}.polluted === undefined) return
      note('polluted')
      clearInterval(timer)
    }, 50)
    timer.unref()`
  const pids = (what: string) =>
    (existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [])
      .filter(line => line.startsWith(`${what} `))
      .map(line => Number(line.split(' ')[1]))
  return {
    option: `--import data:text/javascript,${encodeURIComponent(code)}`,
    watched: () => pids('watched'),
    polluted: () => pids('polluted'),
  }
}
