import { existsSync, mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openLink } from '../../bus/connect.js'
import { lifecycle } from '../../bus/lifecycle.js'
import { openLog } from '../../bus/log.js'
import { openMux } from '../../bus/mux.js'
import { readConfig } from '../../schemas/config.js'
import { openSqlite } from '../../store/sqlite.js'
import { startResources } from '../../workers/resources/main.js'
import { claimCluster } from '../../workers/resources/store-identity.js'
import { startNats } from '../helpers/nats.js'

const log = openLog('test', 'silent')

async function cluster(t: Test) {
  const nats = await startNats()
  const folder = t.testdir()
  t.teardown(() => nats.stop())
  const connect = (protocol = 0) => openLink({ url: nats.url('resources'), role: 'resources', log, protocol })
  /** A resource worker on the folder of this name; resolves to its stop. */
  async function start(name: string) {
    const config = readConfig({}, { data: join(folder, name), max_file_store: 1024 ** 3 })
    const life = lifecycle(log, 5_000)
    const link = await connect()
    life.push({ name: 'broker connection', stop: () => link.close() })
    await startResources(config, link, life).catch(async error => {
      await life.stop()
      throw error
    })
    return () => life.stop()
  }
  return { folder, connect, start }
}

t.test('a cluster serves one store', async t => {
  const { folder, start } = await cluster(t)
  const stopFirst = await start('a')
  const error = await start('b').catch(error => error as Error)
  t.match(error, { name: 'StoreRefused', message: /already serves the store .*\/a \(.*has the store .*\/b \(/ })
  t.notOk(existsSync(join(folder, 'b', 'weft.lock')), 'the store of the refused worker was closed')
  await stopFirst()
  const stopAgain = await start('a')
  await stopAgain()
  const stopOther = await start('b')
  await t.rejects(start('a'), { name: 'StoreRefused' }, 'another store is served once no worker runs')
  await stopOther()
})

t.test('resource workers whose protocols are further apart do not serve together', async t => {
  const { folder, connect } = await cluster(t)
  const data = join(folder, 'a')
  const store = await openSqlite({ folder: data })
  t.teardown(() => store.close())
  const claim = async (protocol: number) => {
    const link = await connect(protocol)
    const mux = openMux(link)
    const life = lifecycle(log, 1_000)
    t.teardown(async () => {
      await life.stop()
      mux.close()
      await link.close()
    })
    const onConflict = () => t.fail('those before it go on')
    await claimCluster({ config: readConfig({}, { data }), store, link, mux, life, onConflict })
  }
  await claim(1)
  await t.rejects(claim(3), {
    name: 'StoreRefused',
    message: /^this resource worker .*protocol 3.* do not work together/,
  })
  await claim(2)
})

t.test('of two that start at the same time the later one stops', async t => {
  const { folder, connect } = await cluster(t)
  const refused: string[] = []
  const worker = async (name: string) => {
    const data = join(folder, name)
    const store = await openSqlite({ folder: data })
    const link = await connect()
    const mux = openMux(link)
    const life = lifecycle(log, 1_000)
    t.teardown(async () => {
      await life.stop()
      mux.close()
      await link.close()
      await store.close()
    })
    const config = readConfig({}, { data })
    const claimed = claimCluster({ config, store, link, mux, life, onConflict: () => void refused.push(name) })
    return claimed.catch(() => void refused.push(name))
  }
  await Promise.all(['a', 'b', 'c'].map(worker))
  const end = Date.now() + 10_000
  while (new Set(refused).size < 2 && Date.now() < end) await new Promise(next => setTimeout(next, 10))
  t.equal(new Set(refused).size, 2)
})

t.test('the files of the store are readable by their owner only', async t => {
  const folder = t.testdir()
  const data = join(folder, 'open')
  mkdirSync(data, { mode: 0o755 })
  const store = await openSqlite({ folder: data })
  await store.ping()
  for (const name of ['weft.db', 'weft.db-wal', 'weft.db-shm', 'weft.owner', 'weft.lock'])
    t.equal(statSync(join(data, name)).mode & 0o777, 0o600, name)
  await store.close()
  const made = join(folder, 'made')
  await (await openSqlite({ folder: made })).close()
  t.equal(statSync(made).mode & 0o777, 0o700)
})
