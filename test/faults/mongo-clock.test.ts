/** Resource workers and a graph worker whose clocks are ten minutes off, beside one that is right. */
import t from 'tap'
import { startRoles } from '../helpers/cluster.js'
import { startMongo } from '../helpers/stores/mongo-server.js'
import { clockEnv, EARLY_MS, SKEW_MS, saysSo, underSkew } from './clock-skew.js'

t.setTimeout(180_000)

t.test('nothing fires early, no live run is taken over, and the difference is reported', async t => {
  const mongo = await startMongo()
  t.teardown(() => mongo.stop())
  const roles = await startRoles({
    app: 'test/apps/faults',
    env: { MONGODB_URL: mongo.url(), WEFT_CRON_SECONDS: '1' },
  })
  t.teardown(() => roles.stop())
  const ahead = await roles.add('resources', undefined, clockEnv(SKEW_MS))
  const behind = await roles.add('resources', undefined, clockEnv(-SKEW_MS))
  await roles.add('graphs', undefined, clockEnv(SKEW_MS))
  const found = await underSkew(roles, { delayed: 30, running: 8, seconds: 10, workers: 3 })
  t.comment(JSON.stringify(found))
  t.ok(found.earliest > -EARLY_MS, `the earliest delayed run started ${Math.round(found.earliest)} ms after its time`)
  t.ok(found.latest < 60_000, `the latest ${Math.round(found.latest)} ms after it`)
  t.equal(found.repeated, 0, 'no live run was taken over')
  t.ok(found.firings > 0)
  t.equal(found.earlyFiring, 0, 'no cron fired before its time')
  t.same(
    found.metrics.map(seconds => Math.round(seconds / 10) * 10).sort((a, b) => a - b),
    [-600, 0, 600],
  )
  t.same([roles.resources[0]!, ahead, behind].map(saysSo), [false, true, true])
})
