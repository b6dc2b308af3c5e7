/** Credentials change without a refused call, in the steps of docs/operations.md#keys-of-the-control-plane. */
import t from 'tap'
import { startRoles } from '../helpers/cluster.js'
import { until } from '../helpers/until.js'

t.setTimeout(180_000)

const APP = 'test/apps/basic'

t.test('keys of the control plane', async t => {
  const keys = (value: string) => ({ WEFT_CONTROL_KEY: value })
  const [old, fresh] = ['the-old-control-key', 'the-new-control-key']
  const roles = await startRoles({ resources: 0, graphs: 0, edges: 0, app: APP })
  t.teardown(() => roles.stop())
  let resources = await roles.add('resources', undefined, keys(old))
  const edge = await roles.add('edge')
  const status = async (key: string, at = edge) =>
    (await fetch(`http://127.0.0.1:${at.port}/v2/deployments`, { headers: { 'x-api-key': key } })).status
  const restart = async (value: string) => {
    await resources.stop()
    resources = await roles.add('resources', undefined, keys(value))
  }
  t.same([await status(old), await status(fresh)], [200, 401])
  await restart(`${old},${fresh}`)
  // An edge asks for keys that it does not know once a second at most.
  await until(async () => (await status(fresh)) === 200)
  t.equal(await status(old), 200, 'both')
  await restart(fresh)
  t.equal(await status(fresh), 200, 'without a question')
  // One that has read the keys before keeps them for half a minute.
  const other = await roles.add('edge')
  t.same([await status(old, other), await status(fresh, other)], [401, 200], 'the new one alone')
})
