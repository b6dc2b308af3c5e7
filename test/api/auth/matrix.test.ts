/** What is Alice's is hers alone, wherever the `auth` of the application runs. */
import t from 'tap'
import { startCluster, startRoles } from '../../helpers/cluster.js'
import { matrix, RECEIVER } from './ownership.js'

t.setTimeout(180_000)

t.test('what belongs to one user is closed to the others', async t => {
  const cluster = await startCluster({ app: 'test/apps/auth', env: { WEFT_ALLOW_HOSTS: RECEIVER } })
  t.teardown(() => cluster.stop())
  await matrix(t, cluster.url)
})

t.test('also in an application beside the built-in one, whose auth runs where its graphs do', async t => {
  const roles = await startRoles({ app: 'test/apps/basic', env: { WEFT_ALLOW_HOSTS: RECEIVER } })
  t.teardown(() => roles.stop())
  await roles.add('graphs', ['--app', 'test/apps/auth', '--app-id', 'second'])
  await matrix(t, `${roles.urls[0]}/deployments/second`)
})
