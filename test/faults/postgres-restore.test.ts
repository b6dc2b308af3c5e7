import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { allGone, startCluster } from '../helpers/cluster.js'
import { runWeft } from '../helpers/command.js'
import { lines } from '../helpers/sdk.js'
import { ownPostgres, startOwnPostgres } from '../helpers/stores/postgres-server.js'
import { survives } from './survives.js'

t.setTimeout(280_000)

t.test('pg_dump under load, pg_restore elsewhere, an empty broker: what the dump has goes on', async t => {
  const server = await startOwnPostgres()
  t.teardown(() => server.stop())
  const { bin } = ownPostgres()
  const folder = mkdtempSync(join(tmpdir(), 'weft-restored-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const dump = join(folder, 'weft.dump')
  let later = ''
  const before = { DATABASE_URI: server.url('postgres') }
  const cluster = await survives(
    t,
    async (cluster, data) => {
      const client = lines[0]!.connect(cluster.url)
      await client.threads.create({ metadata: { topic: 'before the dump' } })
      execFileSync(join(bin, 'pg_dump'), ['--format=custom', '--schema=weft', '--file', dump, server.url('postgres')])
      later = (await client.threads.create()).thread_id
      const pids = [cluster.launcher.pid, ...cluster.pids()]
      for (const pid of pids) process.kill(pid, 'SIGKILL')
      await allGone(pids)
      await server.create('restored')
      execFileSync(join(bin, 'pg_restore'), ['--exit-on-error', '--dbname', server.url('restored'), dump])
      // The folder of the broker is left behind.
      const restored = join(folder, 'data')
      execFileSync('mkdir', [restored])
      copyFileSync(join(data, 'encryption.key'), join(restored, 'encryption.key'))
      return startCluster({ app: 'test/apps/basic', data: restored, env: { DATABASE_URI: server.url('restored') } })
    },
    before,
  )
  const client = lines[0]!.connect(cluster.url)
  await t.rejects(client.threads.get(later), /404/, 'what was made after the dump is gone')
  t.equal((await client.threads.search({ metadata: { topic: 'before the dump' } })).length, 1)
  const { thread_id } = await client.threads.create({ metadata: { topic: 'after the restore' } })
  t.equal((await client.threads.search({ metadata: { topic: 'after the restore' } }))[0]!.thread_id, thread_id)
  const refused = await runWeft(['backup', join(folder, 'copy')], before)
  t.match(refused, { code: 2, stderr: /the store is PostgreSQL.*pg_dump/ })
})
