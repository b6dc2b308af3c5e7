import fc from 'fast-check'
import { ROUTES } from '../../../../edge/routes.js'
import { below, type Proc } from '../../../helpers/cluster.js'
import { hostileBody, MALFORMED, pathOf, sendBody } from '../../../helpers/hostile-bodies.js'
import { rssOf } from '../../../helpers/processes.js'
import { quantile } from '../../harness/ledger.js'
import type { Row } from '../../harness/row.js'

const KEY = 'a-control-key-for-tests'
const P99_MS = 20
const GROWTH_MB = 30
const AT_ONCE = 2
/** One good call beside this many bodies. */
const HONEST = 10
/** Memory counts from here: caches and compiled code are there. */
const WARM = 1 / 3
const ROLES = ['edges', 'resources', 'graphs'] as const

export const row: Row = {
  number: 19,
  name: 'Malformed input',
  fault:
    'Bodies that are truncated, have wrong types, NaN, huge numbers, keys twice, a byte order mark, invalid UTF-8, lone ' +
    'surrogates, NUL, or arrays 100,000 deep, on every route of the route table.',
  promised:
    `No answer of 5xx, no process ends; p99 of refusals ≤ ${P99_MS} ms; no process grows by more than ${GROWTH_MB} MB after ` +
    'the first third.',
  async run(stage) {
    const count = stage.size(2_000, 20_000)
    const env = { WEFT_CONTROL_KEY: KEY, LOG_LEVEL: 'error' }
    const roles = await stage.roles({ edges: 1, resources: 1, graphs: 1, app: 'test/apps/basic', env })
    const url = roles.urls[0]!
    const made = await stage.ledger.call<{ thread_id: string }>({ url, path: '/threads', body: {} })
    const { thread_id } = made.body!
    const procs = ROLES.flatMap(role => roles[role])
    const alive = (all: readonly Proc[]) => all.flatMap(({ pid }) => [pid, ...below(pid)]).sort()
    const before = alive(procs)
    const routes = ROUTES.filter(({ test }) => !test)
    const kinds = Object.values(MALFORMED)
    const samples = fc.sample(hostileBody, { seed: stage.random.seed, numRuns: count })

    const statuses = new Map<number, number>()
    const refusals: number[] = []
    const accepted: number[] = []
    const honest: number[] = []
    const wrong: string[] = []
    const one = async (n: number) => {
      const route = routes[n % routes.length]!
      // The thread exists for two of three requests; a DELETE does not find it.
      const ids: { [param: string]: string } = n % 3 === 0 || route.method === 'DELETE' ? {} : { thread_id }
      const body = stage.random.next() < 0.5 ? samples[n]! : stage.random.pick(kinds)
      const since = performance.now()
      const status = await sendBody(url, route.method, pathOf(route, ids), body, KEY).catch(() => 0)
      const ms = performance.now() - since
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      ;(status >= 400 ? refusals : accepted).push(ms)
      if (status === 0 || status >= 500)
        wrong.push(`${route.method} ${route.path}: ${status || 'no answer'} to ${body.toString().slice(0, 100)}`)
    }
    /** The influence of the machine on a call that has no fault. */
    const ask = async () =>
      void honest.push((await stage.ledger.call({ url, method: 'GET', path: `/threads/${thread_id}` })).ms)
    let next = 0
    const send = (most: number) =>
      Promise.all(
        Array.from({ length: AT_ONCE }, async () => {
          while (next < most) {
            const n = next++
            await one(n)
            if (n % HONEST === 0) await ask()
          }
        }),
      )
    await send(Math.floor(count * WARM))
    const warm = procs.map(({ pid }) => rssOf(pid))
    await send(count)
    const growth = Object.fromEntries(
      ROLES.map((role, i) => [role, Math.round(rssOf(roles[role][0]!.pid) - warm[i]!)] as const),
    )

    stage.expect(wrong.length === 0, `${wrong.length} were answered 5xx or not at all: ${wrong[0]}`)
    for (const line of wrong.slice(0, 20)) stage.say(`  ${line}`)
    const same = alive(procs).join() === before.join()
    stage.expect(same, 'a process has ended or was started again')
    const p99 = quantile(refusals, 0.99)
    const good = quantile(honest, 0.99)
    stage.expectTime(
      p99 <= P99_MS,
      `p99 of refusals was ${Math.round(p99)} ms, that of good reads ${Math.round(good)} ms`,
    )
    for (const [role, mb] of Object.entries(growth))
      stage.expect(Math.abs(mb) <= GROWTH_MB, `the process of ${role} changed by ${mb} MB`)
    const path = '/runs/wait'
    const run = await stage.ledger.call({ url, path, body: { assistant_id: 'echo', input: { text: 'x' } } })
    stage.expect(run.outcome === 'ok', 'an ordinary run does not succeed afterwards')
    const counts = [...statuses].sort(([a], [b]) => a - b).map(([status, times]) => `${times} × ${status || 'none'}`)
    return {
      load: `${count} bodies on ${routes.length} routes, ${AT_ONCE} at once`,
      measured:
        `${counts.join(', ')}; refused after ${p99.toFixed(1)} ms (p99), accepted after ` +
        `${quantile(accepted, 0.99).toFixed(1)} ms (p99, with their runs), good reads meanwhile after ` +
        `${good.toFixed(1)} ms (p99); memory of edge, resource worker, graph worker ` +
        `${ROLES.map(role => signed(growth[role]!)).join(', ')} MB`,
    }
  },
}

const signed = (mb: number): string => (mb < 0 ? `−${-mb}` : `+${mb}`)
