/** Another process holds a lock on the embedded store. */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import Libsql from 'libsql'
import t from 'tap'
import { startRoles } from '../helpers/cluster.js'
import { finalStatuses, load } from './load.js'

t.setTimeout(240_000)
const APP = 'test/apps/basic'

t.test('the database is locked for 9 s: no accepted run is lost, calls succeed again', async t => {
  const roles = await startRoles({ app: APP })
  t.teardown(() => roles.stop())
  const url = roles.urls[0]!
  const { accepted, refused, stop } = load(roles)
  await sleep(1_500)
  const before = accepted.length
  const db = new Libsql(join(roles.nats.data, 'weft.db'))
  db.exec('PRAGMA busy_timeout = 30000')
  db.exec('BEGIN IMMEDIATE')
  await sleep(9_000)
  t.equal((await fetch(`${url}/ready`)).status, 503, 'not ready while it cannot write')
  db.exec('ROLLBACK')
  db.close()
  const deadline = Date.now() + 20_000
  while ((accepted.length < before + 20 || (await fetch(`${url}/ready`)).status !== 200) && Date.now() < deadline)
    await sleep(100)
  t.equal((await fetch(`${url}/ready`)).status, 200)
  await stop()
  t.ok(accepted.length >= before + 20, 'calls are answered again')
  t.same(
    [...new Set(refused)].filter(status => status !== 503),
    [],
    'refused only as unavailable',
  )
  const states = await finalStatuses(url, accepted)
  t.same([...new Set(states)], ['success'], `${states.length} runs were accepted`)
})
