/** An `auth` in Python: the rows of the one in JavaScript, and the end of its process. */
import { join } from 'node:path'
import t from 'tap'
import { root } from '../../../cli/root.js'
import { venvOf, withoutPython } from '../../../scripts/checks/venv.js'
import { type Cluster, startCluster } from '../../helpers/cluster.js'
import { until } from '../../helpers/until.js'
import { callerOf, callerRows } from './caller-rows.js'
import { matrix, RECEIVER } from './ownership.js'

t.setTimeout(180_000)
const skip = withoutPython() ?? false
let cluster: Cluster
if (skip === false)
  t.before(async () => {
    const WEFT_PYTHON = await venvOf(join(root, 'test/host-python/requirements.txt'))
    cluster = await startCluster({
      app: 'test/apps/auth-py',
      env: { WEFT_PYTHON, WEFT_STUDIO_AUTH: '1', WEFT_ALLOW_HOSTS: RECEIVER },
    })
  })
t.teardown(() => cluster?.stop())

t.test('handlers decide, and graphs see the caller', { skip }, t => callerRows(t, cluster.url))
t.test('what belongs to one user is closed to the others', { skip }, t => matrix(t, cluster.url))

t.test('a refusal keeps its status, sentence and headers; a failed assertion is 403', { skip }, async t => {
  const { send, as } = callerOf(cluster.url)
  const refused = await send('POST', '/threads', {})
  t.match(refused, { status: 401, body: { detail: 'Who are you?' } })
  t.equal(refused.headers.get('www-authenticate'), 'X')
  t.match(await as('alice', 'POST', '/threads', {}, 'handler:assert'), { status: 403, body: { detail: 'not today' } })
})

t.test('a user of the Studio is the one of the SDK', { skip }, async t => {
  const { send } = callerOf(cluster.url)
  const studio = { 'x-auth-scheme': 'langsmith' }
  const made = await send('POST', '/threads', {}, studio)
  t.match(made, { status: 200 })
  const { thread_id } = made.body as { thread_id: string }
  t.equal((await send('GET', `/threads/${thread_id}`, undefined, studio)).status, 404, 'its filter names an owner')
})

t.test('while its process is started again, requests are refused with Retry-After', { skip }, async t => {
  const { as } = callerOf(cluster.url)
  for (const wish of ['killed', 'block']) {
    const refused = await as('alice', 'POST', '/threads/search', {}, wish)
    t.ok([500, 503].includes(refused.status), `${wish}: ${refused.status}`)
    const next = await as('alice', 'POST', '/threads/search', {})
    if (wish === 'killed') {
      t.equal(next.status, 503)
      t.ok(Number(next.headers.get('retry-after')) > 0)
    }
    await until(async () => (await as('alice', 'POST', '/threads/search', {})).status === 200)
  }
})
