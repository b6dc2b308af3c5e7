import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { openLog } from '../../bus/log.js'
import type { RecordRow } from '../../store/rows/records.js'
import { openSqlite } from '../../store/sqlite.js'
import { watchDisk } from '../../workers/resources/disk.js'
import { until } from '../helpers/until.js'

const MB = 1024 * 1024
const log = openLog('test', 'silent')

t.test('new runs are refused while less than the limit is free', async t => {
  const disk = { free: 300 * MB, size: 100_000 * MB }
  let reusable = 0
  const options = { data: '/data', database_uri: '', mongodb_url: '', min_free_mb: 256 }
  const watch = await watchDisk(options, { reusable: async () => reusable }, log, async () => disk)
  t.teardown(() => watch.stop())
  watch.expectRoom()

  disk.free = 255 * MB
  await until(() => refuses(watch))
  t.throws(() => watch.expectRoom(), { code: 'unavailable', message: /WEFT_MIN_FREE_MB/ })
  reusable = 2 * MB
  await until(() => !refuses(watch))
  t.pass('what removed rows have left counts as free')
  reusable = 0
  await until(() => refuses(watch))
  disk.free = 256 * MB
  await until(() => !refuses(watch))
})

t.test('the limit is a tenth of a small disk', async t => {
  const options = { data: '/data', database_uri: '', mongodb_url: '', min_free_mb: 256 }
  const open = (free: number) =>
    watchDisk(options, { reusable: async () => 0 }, log, async () => ({ free, size: 64 * MB }))
  const [enough, less] = [await open(7 * MB), await open(6 * MB)]
  t.teardown(() => enough.stop())
  t.teardown(() => less.stop())
  t.notOk(refuses(enough))
  t.ok(refuses(less), 'known when it is opened')
})

t.test('nothing is refused with MongoDB, without a limit, or when the disk cannot be looked at', async t => {
  const full = async () => ({ free: 0, size: MB })
  const store = { reusable: async () => 0 }
  const none = [
    await watchDisk(
      { data: '/data', database_uri: '', mongodb_url: 'mongodb://127.0.0.1', min_free_mb: 256 },
      store,
      log,
      full,
    ),
    await watchDisk({ data: '/data', database_uri: '', mongodb_url: '', min_free_mb: 0 }, store, log, full),
    await watchDisk({ data: '/does/not/exist', database_uri: '', mongodb_url: '', min_free_mb: 256 }, store, log),
  ]
  for (const watch of none) {
    t.notOk(refuses(watch))
    watch.stop()
  }
})

t.test('the embedded store counts the pages that removed rows have left', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'weft-disk-'))
  const store = await openSqlite({ folder })
  t.teardown(async () => {
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const row: RecordRow = {
    kind: 'k',
    app: '',
    id: 'a',
    parent: '',
    name: null,
    rev: 1,
    body: 'x'.repeat(4 * MB),
    keys: [],
    due_at: null,
    created_at: 0,
    updated_at: 0,
  }
  const before = await store.reusable()
  t.equal(await store.apply([{ step: 'records.insert', row }]), -1)
  t.equal(await store.apply([{ step: 'records.remove', kind: 'k', id: 'a', where: {} }]), -1)
  t.ok((await store.reusable()) - before >= 3 * MB)
})

function refuses(watch: { expectRoom(): void }): boolean {
  try {
    watch.expectRoom()
    return false
  } catch {
    return true
  }
}
