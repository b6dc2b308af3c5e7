/** A user cannot reach the resources of another one, in an application that a pool of its own serves. */
import t from 'tap'
import { startRoles } from '../../helpers/cluster.js'
import { matrix, RECEIVER } from './ownership.js'

t.setTimeout(180_000)

t.test('in an application beside the built-in one, whose auth runs where its graphs do', async t => {
  const roles = await startRoles({ app: 'test/apps/basic', env: { WEFT_ALLOW_HOSTS: RECEIVER } })
  t.teardown(() => roles.stop())
  await roles.add('graphs', ['--app', 'test/apps/auth', '--app-id', 'second'])
  await matrix(t, `${roles.urls[0]}/deployments/second`)
})
