/** The keys of the control plane over several starts of a store. */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openLog } from '../../bus/log.js'
import { readConfig } from '../../schemas/config.js'
import { patchDeployment } from '../../workers/resources/deployments/change.js'
import { createDeployment } from '../../workers/resources/deployments/create.js'
import { secretsOf } from '../../workers/resources/deployments/text.js'
import { controlDigests } from '../../workers/resources/keys/control-key.js'
import { provedRing, renewSecrets } from '../../workers/resources/keys/renew.js'
import { workspaceOf } from '../../workers/resources/workspace.js'
import { github } from '../helpers/control.js'
import { stage } from './stage.js'

const A = 'the first key of this store'
const B = 'another key that takes its place'
const silent = openLog('test', 'silent')

t.test(
  'rotation: with both keys all secrets can be read and are encrypted again, then the old key is not needed',
  async t => {
    const { store, all } = await stage(t, 1)
    const start = async (encryption_key: string) => {
      const ring = await provedRing(readConfig({}, { encryption_key }), store, silent)
      const deps = { ...all[0]!, ring }
      await renewSecrets({ store, ring, log: silent })
      return deps
    }
    const first = await start(A)
    const { id, body } = await createDeployment(
      first,
      github('kept', { secrets: [{ name: 'A', value: 'the-canary' }] }),
    )
    const sealed = async () => (await store.records.get('secrets', body.secrets))!.body
    const before = await sealed()
    t.match(before, first.ring.id)

    const wrong = await start(B)
    await t.rejects(secretsOf(wrong, id, body.secrets), { code: 'unavailable', message: /secrets cannot be used/ })
    await t.rejects(
      createDeployment(wrong, github('other')),
      { code: 'unavailable' },
      'nothing is written with it either',
    )
    await t.rejects(patchDeployment(wrong, id, { secrets: [] }, '', ''), { code: 'unavailable' })
    await patchDeployment(wrong, id, { source_config: { resource_spec: { cpu: 2 } } }, '', '')
    t.equal(await sealed(), before)

    const both = await start(`${B},${A}`)
    t.same(await secretsOf(both, id, body.secrets), { A: 'the-canary' })
    t.match(await sealed(), both.ring.id, 'encrypted with the new key')
    t.notMatch(await sealed(), first.ring.id)
    const last = await start(B)
    t.same(await secretsOf(last, id, body.secrets), { A: 'the-canary' })
    await t.rejects(secretsOf(await start(A), id, body.secrets), { code: 'unavailable' })
  },
)

t.test('the key of the control plane: one for all workers on a store', async t => {
  const { store } = await stage(t, 1)
  const folders = [t.testdir({ a: {}, b: {}, c: {} })].flatMap(root => ['a', 'b', 'c'].map(name => join(root, name)))
  const digest = (data: string, more: object = {}) =>
    controlDigests(readConfig({}, { data, mongodb_url: 'mongodb://x', ...more }), store).then(([one]) => one!)
  const [one, two] = await Promise.all([digest(folders[0]!), digest(folders[1]!)])
  t.equal(two, one, 'both workers use the same key')
  t.equal(await digest(folders[2]!), one)
  const keys = folders.filter(folder => existsSync(join(folder, 'control.key')))
  t.equal(keys.length, 1, 'one of them holds it')
  const key = readFileSync(join(keys[0]!, 'control.key'), 'utf8').trim()
  t.equal(createHash('sha256').update(key).digest('hex'), one)
  const given = await digest(folders[0]!, { control_key: 'a-key-that-is-given' })
  t.equal(given, createHash('sha256').update('a-key-that-is-given').digest('hex'))
  t.not(await digest(folders[2]!, { mongodb_url: '' }), one, 'an embedded store has its own')
})

t.test('the ids of the workspace are created once', async t => {
  const { store } = await stage(t, 1)
  const found = await Promise.all([workspaceOf(store), workspaceOf(store), workspaceOf(store)])
  t.same(found[1], found[0])
  t.same(found[2], found[0])
  t.same(await workspaceOf(store), found[0])
  t.not(found[0]!.tenant_id, found[0]!.organization_id)
})
