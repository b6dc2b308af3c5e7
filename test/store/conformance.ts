/**
 * The promises of every store: those of store/port.ts and nothing more. An adapter without transactions passes
 * too: after a failed step, only that step and the later ones are known not to be done.
 */
import t from 'tap'
import type { Store } from '../../store/port.js'
import type { AssistantRow } from '../../store/rows/assistants.js'
import type { Step, Truncated } from '../../store/steps.js'
import { assistantConformance } from './conformance-assistants.js'
import { checkpointConformance } from './conformance-checkpoints.js'
import { itemConformance } from './conformance-items.js'
import { readyRunsConformance } from './conformance-ready.js'
import { recordConformance } from './conformance-records.js'
import { APP, assistant, bytes, checkpoint, run, save, thread, write } from './conformance-rows.js'
import { runSearchConformance } from './conformance-run-search.js'
import { runConformance } from './conformance-runs.js'
import { threadRowConformance } from './conformance-thread-rows.js'
import { threadConformance } from './conformance-threads.js'
import { valueConformance } from './conformance-values.js'
import { writer } from './conformance-writer.js'

export interface Opened {
  store: Store
  /** Closes the store and opens it again over the same data. */
  reopen(): Promise<Store>
  /** Closes whatever is open and removes the data. */
  remove(): Promise<void>
}

/**
 * `samples`: so many hostile values make the round trip; `many`: so many threads meet one condition. Fewer where each
 * of them reaches a server ten times.
 */
export function conformance(
  name: string,
  open: () => Promise<Opened>,
  { samples: count = 5_000, many = 2_500 } = {},
): void {
  t.test(`${name}: the promises of a store`, { timeout: 300_000 }, async t => {
    const opened = await open()
    t.teardown(() => opened.remove())
    const { store } = opened
    const { done, newThread, newRun, patchRev } = writer(store)

    t.test('ping and an empty list of steps', async t => {
      await store.ping()
      t.ok((await store.bytes()) > 0, 'it uses disk space')
      t.ok((await store.reusable()) >= 0)
      t.equal(await store.apply([]), -1)
    })

    t.test('the index of the failed step is returned; it and the later ones are not done', async t => {
      const { thread_id } = await newThread()
      const later = thread()
      const steps: Step[] = [
        save(thread_id, { checkpoints: [checkpoint('c', 1)] }),
        { step: 'runs.beat', runs: [] },
        patchRev(thread_id, 99, { latest_checkpoint_id: 'bad' }),
        { step: 'threads.insert', row: later },
      ]
      t.equal(await store.apply(steps), 2)
      t.match(await store.threads.get(APP, thread_id), { latest_checkpoint_id: null, rev: 0 })
      t.equal(await store.threads.get(APP, later.thread_id), null)
    })

    t.test('failing lists do not disturb those of the same moment', async t => {
      const rows = Array.from({ length: 60 }, () => thread())
      const outcomes = await Promise.all(
        rows.map((row, i) =>
          store.apply([
            { step: 'threads.insert', row },
            patchRev(row.thread_id, i % 3 === 0 ? 1 : 0, { latest_checkpoint_id: 'h' }),
          ]),
        ),
      )
      t.same(
        outcomes,
        rows.map((_, i) => (i % 3 === 0 ? 1 : -1)),
      )
      for (const [i, row] of rows.entries())
        if (i % 3 !== 0) t.match(await store.threads.get(APP, row.thread_id), { rev: 1, latest_checkpoint_id: 'h' })
    })

    t.test('what apply has resolved is read at once', async t => {
      await Promise.all(
        Array.from({ length: 200 }, async (_, i) => {
          const { thread_id } = await newThread()
          await done(patchRev(thread_id, 0, { latest_checkpoint_id: `h${i}` }))
          t.equal((await store.threads.get(APP, thread_id))?.latest_checkpoint_id, `h${i}`)
        }),
      )
    })

    t.test('truncate empties one thing and leaves the others in step', async t => {
      const other = await open()
      t.teardown(() => other.remove())
      const { store } = other
      const steps = async (...steps: Step[]) => t.equal(await store.apply(steps), -1)
      const truncate = (what: Truncated, keep: Pick<AssistantRow, 'app' | 'assistant_id'>[] = []) =>
        steps({ step: 'truncate', what, keep })
      const active = { run_id: 'r', attempt: 1, token: 'tok' }
      const row = thread({
        status: 'busy',
        settled: 'interrupted',
        active,
        queue: [{ run_id: 'q', position: 0, due_at: 0 }],
      })
      const { thread_id } = row
      const one = run(thread_id)
      const [kept, gone] = [assistant(), assistant({ app: 'other' })]
      await steps(
        { step: 'assistants.insert', row: kept },
        { step: 'assistants.insert', row: gone },
        { step: 'threads.insert', row: { ...row, latest_checkpoint_id: 'c', interrupts: '{"t":[]}' }, keys: ['k'] },
        { step: 'threads.state', thread_id, latest_checkpoint_id: 'c', values: bytes('{}'), rest: null },
        { step: 'runs.insert', row: one },
        save(thread_id, { checkpoints: [checkpoint('c', 1)], writes: [write('c', 't', 0, 'w')] }),
      )
      await truncate('assistants', [kept])
      t.ok(await store.assistants.get(kept.app, kept.assistant_id))
      t.equal(await store.assistants.get(gone.app, gone.assistant_id), null)
      await truncate('runs')
      t.equal(await store.runs.get(one.run_id), null)
      t.match(await store.threads.get(APP, thread_id), {
        active: null,
        queue: [],
        status: 'interrupted',
        latest_checkpoint_id: 'c',
      })
      t.ok(await store.checkpoints.get({ thread_id }))
      await truncate('checkpoints')
      t.same(await store.checkpoints.list({ thread_id }), [])
      t.same((await store.threads.state(thread_id))?.values ?? null, null)
      t.match(await store.threads.get(APP, thread_id), { status: 'idle', latest_checkpoint_id: null, interrupts: '{}' })
      await truncate('threads')
      t.equal(await store.threads.get(APP, thread_id), null)
      await steps({ step: 'threads.insert', row })
    })

    threadRowConformance(t, store)
    runConformance(t, store)
    checkpointConformance(t, store)
    assistantConformance(t, store)
    itemConformance(t, store)
    recordConformance(t, store)
    threadConformance(t, store, many)
    runSearchConformance(t, store, many)
    readyRunsConformance(t, store)
    valueConformance(t, store, count)

    t.test('everything is there after a reopen, and a closed store takes nothing', async t => {
      const row = await newThread({ metadata: '{"kept":true}', latest_checkpoint_id: 'c' })
      const made = await newRun(row.thread_id, { kwargs: '{"input":"kept"}' })
      await done(save(row.thread_id, { checkpoints: [checkpoint('c', 1)], writes: [write('c', 't', 0, 'kept')] }))
      const pending = store.apply([{ step: 'threads.insert', row: thread() }])
      const again = await opened.reopen()
      t.equal(await pending, -1, 'what was accepted before the close is done')
      t.same(await again.threads.get(APP, row.thread_id), row)
      t.same(await again.runs.get(made.run_id), made)
      t.equal((await again.checkpoints.get({ thread_id: row.thread_id }))?.writes.length, 1)

      await t.rejects(store.apply([{ step: 'threads.insert', row: thread() }]), { code: 'unavailable' })
      await t.rejects(store.apply([]), { code: 'unavailable' })
      await t.rejects(store.threads.get(APP, row.thread_id), { code: 'unavailable' })
      await t.rejects(store.checkpoints.list({ thread_id: row.thread_id }), { code: 'unavailable' })
      await t.rejects(store.ping(), { code: 'unavailable' })
      await store.close()
      await again.ping()
    })
  })
}
