/** From the package of the last release to this Weft and back, role by role, while clients work. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { type Proc, startRoles } from '../helpers/cluster.js'
import { earlierCommit, packageOf } from '../helpers/earlier-release.js'
import { until } from '../helpers/until.js'

t.setTimeout(300_000)

const APP = 'test/apps/basic'
const ROLES = ['resources', 'graphs', 'edge'] as const

const folder = mkdtempSync(join(tmpdir(), 'weft-earlier-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

/** Makes threads and runs one after another at the edge that serves now, and keeps what was answered. For test/apps/basic. */
function openClient(edgeOf: () => Proc) {
  const threads: string[] = []
  const failures: string[] = []
  let isOver = false
  const post = async (path: string, body: object) => {
    const url = `http://127.0.0.1:${edgeOf().port}${path}`
    const answer = await fetch(url, { method: 'POST', body: JSON.stringify(body) })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text.slice(0, 300)}`)
    return JSON.parse(text) as { thread_id: string; n?: number }
  }
  const ended = (async () => {
    while (!isOver)
      try {
        const { thread_id } = await post('/threads', {})
        await post(`/threads/${thread_id}/runs/wait`, { assistant_id: 'counter', input: { steps: 2 } })
        threads.push(thread_id)
      } catch (error) {
        failures.push((error as Error).message)
      }
  })()
  return {
    threads,
    failures,
    /** Resolves when a few more runs have ended. */
    more: () => {
      const enough = threads.length + 3
      return until(async () => threads.length >= enough, 60_000)
    },
    async stop() {
      isOver = true
      await ended
    },
  }
}

const commit = await earlierCommit()
const skip = commit === null && 'this clone does not have the commit of the last release: git fetch --unshallow --tags'

t.test('an upgrade under load, and the way back', { skip }, async t => {
  const earlier = await packageOf(commit!, folder)
  const roles = await startRoles({ resources: 0, graphs: 0, edges: 0, app: APP, env: { WEFT_EDGE_DRAIN_MS: '500' } })
  t.teardown(() => roles.stop())
  const start = (role: (typeof ROLES)[number], program?: string) => roles.add(role, undefined, undefined, program)
  const now = {} as { [role in (typeof ROLES)[number]]: Proc }
  for (const role of ROLES) now[role] = await start(role, earlier)
  const load = openClient(() => now.edge)
  /** The new one serves before the old one leaves. */
  const replace = async (role: 'graphs' | 'edge', program?: string) => {
    const before = now[role]
    now[role] = await start(role, program)
    // As a balancer does it: an edge leaves when it has no request any more.
    if (role === 'edge') await load.more()
    await before.stop()
  }
  const step = async (what: string) => {
    await load.more()
    t.same(load.failures, [], what)
  }
  await step('the last release')

  // The embedded store has one resource worker at a time: calls wait meanwhile.
  await now.resources.stop()
  now.resources = await start('resources')
  await step('this resource worker with the others of the last release')
  await replace('graphs')
  await step('this graph worker, too')
  await replace('edge')
  await step('all of them')

  await replace('edge', earlier)
  await step('the edge of the last release again')
  await replace('graphs', earlier)
  await step('its graph worker, too')
  await load.stop()
  t.same(load.failures, [])
  await checkAll(now.edge, load.threads)

  // Its store is newer now, or it is not: then the resource worker goes back, too.
  await now.resources.stop()
  const back = await start('resources', earlier).catch((error: Error) => error)
  if (back instanceof Error) t.match(back.message, /newer Weft/, 'the store is refused with a sentence')
  else await checkAll(now.edge, load.threads)

  /** Every thread has what its run has written. */
  async function checkAll({ port }: Proc, threads: readonly string[]) {
    for (const id of threads) {
      const answer = await fetch(`http://127.0.0.1:${port}/threads/${id}/state`)
      const { next } = (await answer.json()) as { next: unknown }
      t.same([answer.status, next], [200, []])
    }
  }
})
