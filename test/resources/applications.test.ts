/** Which application a call is for, and who may announce its graphs. */
import t, { type Test } from 'tap'
import { lifecycle } from '../../bus/lifecycle.js'
import type { Registration } from '../../schemas/announcements.js'
import { BUILT_IN_APP } from '../../schemas/ids.js'
import { followAnnouncements } from '../../workers/resources/announcements.js'
import { openApps } from '../../workers/resources/apps.js'
import { register } from '../../workers/resources/assistants/register.js'
import type { Deps } from '../../workers/resources/context.js'
import { createDeployment } from '../../workers/resources/deployments/create.js'
import { findServed } from '../../workers/resources/deployments/served.js'
import { webhookRules } from '../../workers/resources/keys/webhook-settings.js'
import { type AppSettings, openAppSettings } from '../../workers/resources/rows/app-settings.js'
import { newRecord } from '../../workers/resources/rows/record.js'
import { github } from '../helpers/control.js'
import { until } from '../helpers/until.js'
import { announceSettings, stage } from './stage.js'

/** Announces it like its graph worker. */
const announce = (registration: Registration, deps: Deps) => register(registration, registration, deps)

t.test('a caller cannot choose the application of its call', async t => {
  const apps = openApps(async () => null)
  t.same(await apps.resolve({ request_id: 'r', app: 'foreign' }), { request_id: 'r' })
  apps.announce('other', 'graph', 'pool')
  t.match(await apps.resolve({ request_id: 'r', app: 'foreign', deployment: { id: 'other' } }), { app: 'other' })
})

t.test('a worker cannot announce the graphs of a deployment without its revision', async t => {
  const { all } = await stage(t, 1)
  const deps = { ...all[0]!, apps: openApps(findServed(all[0]!.store, all[0]!.settings)) }
  const { id } = await createDeployment(deps, github('taken'))
  const graphs = [{ graph_id: 'agent' }]
  await t.rejects(announce({ app: id, pool: 'attacker', graphs }, deps), {
    code: 'conflict',
    message: /of a revision of its deployment only/,
  })
  t.equal(await deps.apps.poolOf(id, 'agent'), null)
  await announce({ app: 'named', pool: 'named', graphs }, deps)
  t.equal(await deps.apps.poolOf('named', 'agent'), 'named')
  await announce({ app: BUILT_IN_APP, pool: 'default', graphs }, deps)
})

t.test('the LangGraph version of an application is that of its pool; all resource workers know it', async t => {
  const { all } = await stage(t, 2)
  const [one, other] = all as [Deps, Deps]
  await following(t, other)
  const graphs = [{ graph_id: 'agent' }]
  t.equal(await one.apps.librariesOf('named'), null)
  await announce({ app: 'named', pool: 'named', graphs, libraries: { javascript: '1.7.3' } }, one)
  t.same(await one.apps.librariesOf('named'), { javascript: '1.7.3' })
  await until(async () => (await other.apps.librariesOf('named'))?.javascript === '1.7.3')

  const served = {
    deployment_id: 'd',
    slug: 'd',
    state: 'serving',
    pool: 'rev_r2',
    graphs: ['agent'],
    app_host: null,
  } as const
  const deployed: Deps = { ...one, apps: openApps(async () => served) }
  for (const id of ['r1', 'r2'])
    await one.store.apply([{ step: 'records.insert', row: newRecord('revision', id, { parent: 'd', body: '{}' }) }])
  await announce({ app: 'd', revision: 'r2', pool: 'rev_r2', graphs, libraries: { javascript: '1.5.3' } }, deployed)
  await announce({ app: 'd', revision: 'r1', pool: 'rev_r1', graphs, libraries: { javascript: '0.2.20' } }, deployed)
  t.same(await deployed.apps.librariesOf('d'), { javascript: '1.5.3' }, 'the pool of the active revision counts')
  const webhooks = { headers: {}, url: { disable_loopback: false }, disabled: false }
  await announce({ app: 'd', revision: 'r2', pool: 'rev_r2', graphs, webhooks }, deployed)
  t.match(await webhookRules(deployed, 'd', 'rev_r2'), { by_operator: false }, 'others have written its langgraph.json')
  await announce({ app: 'named', pool: 'named', graphs, webhooks }, one)
  t.match(await webhookRules(one, 'named', 'named'), { by_operator: true })
})

t.test(
  'settings of a pool are found, however many revisions a deployment had, and are never missing in between',
  async t => {
    const { all } = await stage(t, 2)
    const { store } = all[0]!
    const settings = openAppSettings(store)
    const announce = (pool: string, default_ttl: number | null) =>
      announceSettings({ settings }, 'd', { item_ttl: default_ttl === null ? null : { default_ttl } }, pool)
    for (let n = 0; n < 120; n++) await announce(`rev_${1_000 + n}`, n)
    t.same(await settings.get('item_ttl', 'd', 'rev_1119'), { default_ttl: 119 })
    t.equal(await settings.get('item_ttl', 'd', 'rev_none'), null)
    const other = openAppSettings(all[1]!.store)
    const seen = new Set<number | null | undefined>()
    let over = false
    const reading = (async () => {
      while (!over) seen.add((await other.stored('item_ttl', 'd', 'rev_1119'))?.default_ttl)
    })()
    for (let n = 0; n < 50; n++) await announce('rev_1119', n)
    over = true
    await reading
    t.notOk(seen.has(undefined))
    await announce('rev_1119', null)
    t.equal(await other.stored('item_ttl', 'd', 'rev_1119'), null)
  },
)

t.test(
  'graph workers of one pool that announce at the same time store their settings, and later ones replace all',
  async t => {
    const { all } = await stage(t, 2)
    const [one, other] = all.map(({ store }) => openAppSettings(store)) as [AppSettings, AppSettings]
    const announced = (n: number) => ({ item_ttl: { default_ttl: n }, thread_ttl: { default_ttl: n } })
    const announce = (settings: AppSettings, n: number) => announceSettings({ settings }, 'd', announced(n))
    const stored = () =>
      Promise.all([other.stored('item_ttl', 'd', 'default'), other.stored('thread_ttl', 'd', 'default')])
    await Promise.all(Array.from({ length: 20 }, (_, n) => announce(n % 2 === 0 ? one : other, 1)))
    t.same(await stored(), [{ default_ttl: 1 }, { default_ttl: 1 }])
    await Promise.all(Array.from({ length: 20 }, (_, n) => announce(n % 2 === 0 ? one : other, 2)))
    t.same(await stored(), [{ default_ttl: 2 }, { default_ttl: 2 }])
    await announceSettings({ settings: one }, 'd', { item_ttl: { default_ttl: 3 } })
    t.same(await stored(), [{ default_ttl: 3 }, null])
  },
)

t.test('graph workers of one pool that announce different graphs are reported, received by any worker', async t => {
  const { all } = await stage(t, 2)
  const warnings: unknown[] = []
  const [one, other] = all.map(deps => ({
    ...deps,
    link: { ...deps.link, log: { ...deps.link.log, warn: (...all: unknown[]) => warnings.push(all) } },
  })) as unknown as [Deps, Deps]
  await following(t, other)
  await announce({ app: BUILT_IN_APP, pool: 'default', graphs: [{ graph_id: 'a' }, { graph_id: 'b' }] }, one)
  await until(async () => other.apps.announcedFor('default') !== null)
  await announce({ app: BUILT_IN_APP, pool: 'default', graphs: [{ graph_id: 'b' }, { graph_id: 'a' }] }, other)
  await announce({ app: 'second', pool: 'second', graphs: [{ graph_id: 'c' }] }, other)
  t.same(warnings, [], 'the order does not matter, another pool is no conflict')
  await announce({ app: BUILT_IN_APP, pool: 'default', graphs: [{ graph_id: 'c' }] }, other)
  t.match(warnings, [
    [
      { pool: 'default', graphs: ['c'], before: { graphs: ['b', 'a'] } },
      /graph workers of one pool announce different/,
    ],
  ])
})

t.test('settings that one worker stores are known to the others with the announcement', async t => {
  const { all } = await stage(t, 2)
  const [one, other] = all as [Deps, Deps]
  await following(t, other)
  t.same(await other.settings.of('app_store', BUILT_IN_APP), [], 'read and cached')
  await announce({ app: BUILT_IN_APP, pool: 'default', graphs: [{ graph_id: 'a' }], app_store: true }, one)
  await until(async () => other.apps.announcedFor('default') !== null)
  t.same(await other.settings.of('app_store', BUILT_IN_APP), [{ pool: 'default' }])
})

async function following(t: Test, deps: Deps): Promise<void> {
  const life = lifecycle(deps.link.log, 1_000)
  await followAnnouncements(deps, life)
  t.teardown(() => life.stop())
}
