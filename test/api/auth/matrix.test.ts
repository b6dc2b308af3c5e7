/** A user cannot reach the resources of another one. */
import t from 'tap'
import { startCluster } from '../../helpers/cluster.js'
import { matrix, RECEIVER } from './ownership.js'

t.setTimeout(180_000)

t.test('what belongs to one user is closed to the others', async t => {
  const cluster = await startCluster({ app: 'test/apps/auth', env: { WEFT_ALLOW_HOSTS: RECEIVER } })
  t.teardown(() => cluster.stop())
  await matrix(t, cluster.url)
})
