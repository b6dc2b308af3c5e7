/** Copying and pruning threads: after a crash between any two steps the source is whole and every leftover is swept. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { v7 } from 'uuid'
import { readConfig } from '../../schemas/config.js'
import { BUILT_IN_APP } from '../../schemas/ids.js'
import { openSqlite } from '../../store/sqlite.js'
import { wholeApp } from '../../workers/resources/access.js'
import type { Deps } from '../../workers/resources/context.js'
import { openAppSettings } from '../../workers/resources/rows/app-settings.js'
import { newThread } from '../../workers/resources/rows/thread.js'
import { HALF_MADE_MS } from '../../workers/resources/rows/thread-ttl.js'
import { serializer } from '../../workers/resources/serialize.js'
import { copyThread } from '../../workers/resources/threads/copy.js'
import { keepLatest } from '../../workers/resources/threads/prune.js'
import { removeThread } from '../../workers/resources/threads/remove.js'
import { blob, bytes, checkpoint, save, write } from '../store/conformance-rows.js'
import { Crash, stepwise } from './stage.js'

t.test('every crash point of a copy and of a prune', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'weft-crash-'))
  const real = await openSqlite({ folder })
  t.teardown(async () => {
    await real.close()
    rmSync(folder, { recursive: true })
  })
  const store = stepwise(real)
  // Without runs nothing here needs the broker.
  const link = { nc: { publish: () => {} } }
  const deps = {
    store,
    link,
    settings: openAppSettings(store),
    serialize: serializer(),
    config: readConfig({}),
  } as unknown as Deps
  const all = { after: null, limit: 1_000, bytes: 1e9 }

  async function source() {
    const row = {
      ...newThread({ app: BUILT_IN_APP, thread_id: v7(), metadata: '{"m":1}' }),
      latest_checkpoint_id: 'c5',
    }
    const { thread_id } = row
    await real.apply([
      { step: 'threads.insert', row },
      save(thread_id, {
        checkpoints: [1, 2, 3, 4, 5].map(n =>
          checkpoint(`c${n}`, n, { refs: { a: `${n}`, b: '1' }, metadata: bytes(`{"of":"${thread_id}"}`) }),
        ),
        blobs: [1, 2, 3, 4, 5].map(n => blob('a', `${n}`, bytes(`a${n}`))).concat(blob('b', '1', bytes('b'))),
        writes: [1, 2, 3, 4, 5].map(n => write(`c${n}`, 'task', 0, `w${n}`)),
      }),
    ])
    return row
  }
  const kept = async (thread_id: string) => ({
    rows: await real.checkpoints.rows({ thread_id, ...all }),
    blobs: await real.checkpoints.blobs({ thread_id, ...all }),
    writes: await real.checkpoints.writes({ thread_id, ...all }),
  })
  const shown = async () => {
    const { rows } = await real.threads.list({ app: BUILT_IN_APP, sort: 'thread_id', order: 'asc', limit: 1_000 })
    return rows.map(({ thread_id }) => thread_id)
  }
  /** Repeats the work, with a crash after each number of steps, until it completes. */
  async function crashes(work: () => Promise<unknown>, after: () => Promise<void>) {
    for (let at = 0; ; at++) {
      store.crashAfter(at)
      const crashed = await work().then(
        () => false,
        error => {
          if (!(error instanceof Crash)) throw error
          return true
        },
      )
      store.crashAfter(Number.POSITIVE_INFINITY)
      await after()
      if (!crashed) return at
    }
  }

  await t.test('copy', async t => {
    const { thread_id } = await source()
    const before = await kept(thread_id)
    const seen = await shown()
    const points = await crashes(
      () => copyThread(deps, wholeApp(BUILT_IN_APP), thread_id),
      async () => {
        t.same(await kept(thread_id), before, 'the source')
        const made = (await shown()).filter(id => !seen.includes(id))
        for (const id of made) t.equal((await kept(id)).rows.length, 5, 'a visible thread is whole')
        for (const row of await real.threads.expired(Date.now() + HALF_MADE_MS, 100)) {
          t.ok(row.temporary)
          await removeThread(deps, row)
          t.same(await kept(row.thread_id), { rows: [], blobs: [], writes: [] }, 'an invisible one is swept')
        }
      },
    )
    t.ok(points > 0)
    const [id] = (await shown()).filter(id => !seen.includes(id))
    const copy = await kept(id!)
    t.same(copy.blobs, before.blobs)
    t.same(copy.writes, before.writes)
    t.same(
      copy.rows.map(row => Buffer.from(row.metadata).toString()),
      before.rows.map(row => Buffer.from(row.metadata).toString().replace(thread_id, id!)),
    )
  })

  await t.test('prune', async t => {
    const row = await source()
    const { thread_id } = row
    const points = await crashes(
      () => keepLatest(deps, row),
      async () => {
        const tuple = await real.checkpoints.get({ thread_id })
        t.equal(tuple?.id, 'c5')
        t.same(
          tuple?.blobs.map(({ value }) => Buffer.from(value).toString()),
          ['a5', 'b'],
        )
        for (const { refs } of (await kept(thread_id)).rows)
          for (const [channel, version] of Object.entries(refs))
            t.ok(
              (await kept(thread_id)).blobs.some(one => one.channel === channel && one.version === version),
              'nothing refers to removed rows',
            )
      },
    )
    t.ok(points > 0)
    const { rows, blobs, writes } = await kept(thread_id)
    t.same([rows.length, blobs.length, writes.length], [1, 2, 1])
  })
})
