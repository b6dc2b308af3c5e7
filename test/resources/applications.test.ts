/** Which application a call is for, and who may announce its graphs. */
import t from 'tap'
import { BUILT_IN_APP } from '../../schemas/ids.js'
import { openApps } from '../../workers/resources/apps.js'
import { register } from '../../workers/resources/assistants/register.js'
import { createDeployment } from '../../workers/resources/deployments/create.js'
import { findServed } from '../../workers/resources/deployments/served.js'
import { github } from '../helpers/control.js'
import { stage } from './stage.js'

t.test('the application that a caller names by itself is not believed', async t => {
  const apps = openApps(async () => null)
  t.same(await apps.resolve({ request_id: 'r', app: 'foreign' }), { request_id: 'r' })
  apps.announce('other', 'graph', 'pool')
  t.match(await apps.resolve({ request_id: 'r', app: 'foreign', deployment: { id: 'other' } }), { app: 'other' })
})

t.test('a worker cannot announce the graphs of a deployment without its revision', async t => {
  const { all } = await stage(t, 1)
  const deps = { ...all[0]!, apps: openApps(findServed(all[0]!.store)) }
  const { id } = await createDeployment(deps, github('taken'))
  const graphs = [{ graph_id: 'agent' }]
  await t.rejects(register({ app: id, pool: 'attacker', graphs }, deps), {
    code: 'conflict',
    message: /is a deployment/,
  })
  t.equal(await deps.apps.poolOf(id, 'agent'), null)
  await register({ app: 'named', pool: 'named', graphs }, deps)
  t.equal(await deps.apps.poolOf('named', 'agent'), 'named')
  await register({ app: BUILT_IN_APP, pool: 'default', graphs }, deps)
})
