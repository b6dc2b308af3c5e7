import { setTimeout as sleep } from 'node:timers/promises'
import { ROUTES } from '../../../../edge/routes.js'
import { createOwned, isSearch, RECEIVER, requestOf, SECRET, send } from '../../../api/auth/ownership.js'
import { below } from '../../../helpers/cluster.js'
import { until } from '../../../helpers/until.js'
import type { Row } from '../../harness/row.js'

/** The reactions of the handler of test/apps/auth instead of an answer. */
const WISHES = ['throw', 'nothing', 'nonsense', 'number'] as const
const AT_ONCE = 6

export const row: Row = {
  number: 33,
  name: 'Authorization under faults',
  fault:
    'Every route is called by nobody, by another user, and by the owner with a handler that fails, while app hosts, edges, ' +
    'resource workers and graph workers are killed.',
  promised: 'No request of theirs succeeds, nothing of the owner is shown or changed; a failure refuses.',
  async run(stage) {
    // The edge runs the handler: it is given the application as well.
    const env = { WEFT_ALLOW_HOSTS: RECEIVER, WEFT_APP: 'test/apps/auth' }
    const roles = await stage.roles({ app: 'test/apps/auth', graphs: 1, env })
    const url = () => roles.urls[stage.random.between(0, roles.urls.length - 1)]!
    const alice = async (method: string, path: string, body?: unknown) => {
      const answer = await send(url(), method, path, 'alice', body)
      if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
      return answer.text === '' ? null : JSON.parse(answer.text)
    }
    const owned = await createOwned(alice)
    const { thread_id, run_id, assistant_id, cron_id } = owned
    const seen = async () =>
      JSON.stringify([
        await alice('GET', `/threads/${thread_id}`),
        await alice('GET', `/threads/${thread_id}/runs/${run_id}`),
        await alice('GET', `/threads/${thread_id}/state`),
        await alice('GET', `/assistants/${assistant_id}`),
        await alice('GET', `/runs/crons/${cron_id}`),
        await alice('GET', '/store/items?namespace=docs.alice&key=k'),
      ])
    const before = await seen()
    const counts = { requests: 0, unanswered: 0, unavailable: 0 }
    const wrong: string[] = []
    const attempt = async (route: (typeof ROUTES)[number], user: string | null, wish?: string) => {
      const { path, body } = requestOf(route, owned)
      counts.requests++
      const more: { [name: string]: string } = wish === undefined ? {} : { 'x-wish': wish }
      const answer = await send(url(), route.method, path, user, body, more).catch(() => null)
      if (answer === null) return void counts.unanswered++
      if (answer.status === 503) counts.unavailable++
      const finds = user === 'bob' && isSearch(route)
      // An answer to a command of protocol v2 has status 200 even when it is an error.
      const isError = route.answer === 'command' && answer.text.includes('"type":"error"')
      const passed = answer.status < 300 && !finds && !isError
      if (passed || answer.text.includes(SECRET))
        wrong.push(`${route.method} ${route.path} by ${user} (${wish ?? ''}): ${answer.status}`)
    }
    const closed = ROUTES.filter(({ auth }) => typeof auth !== 'string')
    let on = true
    const requests = async () => {
      while (on) {
        const route = stage.random.pick(closed)
        const who = stage.random.between(0, 2)
        if (who === 2) await attempt(route, 'alice', stage.random.pick(WISHES))
        else await attempt(route, who === 0 ? null : 'bob')
      }
    }
    const callers = Array.from({ length: AT_ONCE }, requests)
    let kills = 0
    for (const end = Date.now() + stage.size(20, 60) * 1_000; Date.now() < end; kills++) {
      await sleep(stage.random.between(800, 2_500))
      const target = stage.random.pick(['app hosts', 'edge', 'resources', 'graphs'] as const)
      if (target === 'app hosts') for (const pid of below(roles.edges[0]!.pid)) killOne(pid)
      else await stage.replace(roles, target, 0)
    }
    on = false
    await Promise.all(callers)
    // Every route once by each, when all has healed.
    const settled = await until(async () => (await seen().catch(() => '')) !== '', 60_000).catch(() => false)
    stage.expect(settled, 'the owner is not served after the faults')
    for (const route of closed) {
      await attempt(route, null)
      await attempt(route, 'bob')
    }
    // An app host that the last requests have ended is being started again.
    const same = await until(async () => (await seen().catch(() => '')) === before, 60_000).catch(() => false)
    stage.expect(same, 'something of the owner has changed')
    stage.expect(wrong.length === 0, `${wrong.length} requests passed: ${wrong[0]}`)
    return {
      load: `${counts.requests} requests on ${closed.length} routes; ${kills} kills`,
      measured:
        `${wrong.length} passed, what the owner has is ${same ? 'unchanged' : 'changed'}; ${counts.unanswered} without an ` +
        `answer, ${counts.unavailable} answered 503`,
    }
  },
}

function killOne(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended meanwhile.
  }
}
