/** A disk of PostgreSQL that is full: calls fail as unavailable, what was answered stays, and writes go on when it has space. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { serverUser } from '../../scripts/postgres/server.js'
import { openPostgres } from '../../store/postgres.js'
import { startOwnPostgres } from '../helpers/stores/postgres-server.js'
import { until } from '../helpers/until.js'
import { record } from './conformance-rows.js'

t.setTimeout(180_000)
const MB = 1024 * 1024
const DISK_MB = 128

const disk = mkdtempSync(join(tmpdir(), 'weft-full-disk-'))
// The server runs as another user, who owns the disk.
const owner = serverUser()
const owned = owner === null ? '' : `,uid=${owner.uid},gid=${owner.gid},mode=755`
const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_MB}m${owned}`, 'tmpfs', disk])
t.teardown(() => {
  if (status === 0) spawnSync('umount', ['-l', disk])
  rmSync(disk, { recursive: true, force: true })
})

t.test('a full disk', { skip: status === 0 ? false : 'needs the right to mount' }, async t => {
  const server = await startOwnPostgres({ max_wal_size: '16MB', min_wal_size: '8MB' }, { parent: disk })
  t.teardown(() => server.stop())
  const store = await openPostgres({ url: server.url('postgres') })
  t.teardown(() => store.close())
  const answered: string[] = []
  let count = 0
  /** Writes half a megabyte; false: unavailable. */
  async function write(): Promise<boolean> {
    const id = `r${count++}`
    const body = JSON.stringify('x'.repeat(MB / 2))
    try {
      t.equal(await store.apply([{ step: 'records.insert', row: record({ kind: 'k', id, name: null, body }) }]), -1)
      answered.push(id)
      return true
    } catch (error) {
      t.match(error, { code: 'unavailable' }, 'no other error')
      return false
    }
  }
  for (let i = 0; i < 5; i++) t.equal(await write(), true)

  const other = join(disk, 'other-data')
  t.throws(() => writeFileSync(other, Buffer.alloc(DISK_MB * MB)), { code: 'ENOSPC' })
  await until(async () => !(await write()))
  t.equal(
    await store
      .ping()
      .then(
        () => 'done',
        error => error.code,
      )
      .then(one => ['done', 'unavailable'].includes(one)),
    true,
  )

  rmSync(other)
  // Without space for its log the server ends: its operator starts it again.
  if (server.pid() === null) await server.restart()
  await until(() =>
    store.ping().then(
      () => true,
      () => false,
    ),
  )
  t.equal(await write(), true, 'writes go on')
  for (const id of answered) t.match(await store.records.get('k', id), { id }, 'what was answered is there')
})
