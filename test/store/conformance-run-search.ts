/** The promises of every store about searches over runs. */
import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import type { Store } from '../../store/port.js'
import type { RunConditions, RunRow, RunSearchQuery } from '../../store/rows/runs.js'
import type { Step } from '../../store/steps.js'
import { run, thread } from './conformance-rows.js'

const STATUSES = ['success', 'error', 'running', 'success', 'timeout', 'pending', 'success', 'interrupted'] as const
const GRAPHS = ['agent', 'other', '"quoted"'] as const

export function runSearchConformance(t: Test, store: Store, many: number): void {
  const done = async (...steps: Step[]) => {
    const failed = await store.apply(steps)
    if (failed !== -1) throw new Error(`step ${failed} (${steps[failed]?.step}) failed`)
  }
  const insert = async (rows: RunRow[]) => {
    for (let at = 0; at < rows.length; at += 500)
      await done(...rows.slice(at, at + 500).map(row => ({ step: 'runs.insert', row }) as const))
  }
  /** All pages, one after the other; a page that is empty before the end counts. */
  const ids = async (query: RunSearchQuery) => {
    const found: string[] = []
    for (let after = query.after, calls = 1; ; calls++) {
      const { rows, next } = await store.runs.search({ ...query, ...(after === undefined ? {} : { after }) })
      found.push(...rows.map(({ run_id }) => run_id))
      if (rows.length > query.limit) throw new Error('a page is too long')
      if (next === null) return { found, calls }
      after = next
    }
  }
  const inOrder = (rows: RunRow[], order: 'asc' | 'desc') => {
    const sorted = rows.toSorted((a, b) => a.created_at - b.created_at || (a.run_id < b.run_id ? -1 : 1))
    return (order === 'asc' ? sorted : sorted.toReversed()).map(({ run_id }) => run_id)
  }

  t.test('runs are searched and counted by every condition, both ways, in pages of any size', async t => {
    const app = randomUUID()
    const [mine, other, hidden] = [thread({ app }), thread({ app }), thread({ app, temporary: true })]
    await done(
      { step: 'threads.insert', row: mine, keys: ['owner=mine'] },
      { step: 'threads.insert', row: other, keys: ['owner=other'] },
      { step: 'threads.insert', row: hidden, keys: [] },
    )
    const rows = Array.from({ length: 60 }, (_, i) =>
      run([mine, other, hidden][i % 3]!.thread_id, {
        app,
        status: STATUSES[i % STATUSES.length]!,
        graph_id: GRAPHS[i % GRAPHS.length]!,
        assistant_id: `assistant-${i % 4}`,
        key_id: i % 5 === 0 ? 'key-0' : i % 5 === 1 ? 'key-1' : null,
        temporary: i % 3 === 2,
        created_at: 1_000 + (i % 11),
        error: i % STATUSES.length === 1 ? '{"error":"TypeError","message":"no \\u0000 such tool"}' : null,
      }),
    )
    await insert(rows)
    const accepting = Array.from({ length: 3 }, () =>
      run(mine.thread_id, {
        app,
        status: 'accepting',
        assistant_id: 'assistant-1',
        key_id: 'key-0',
        created_at: 1_005,
      }),
    )
    await insert(accepting)
    const elsewhere = run(randomUUID(), { app: randomUUID(), status: 'error', created_at: 1_003 })
    await insert([elsewhere])

    const cases: [Omit<RunConditions, 'app'>, (row: RunRow) => boolean][] = [
      [{}, () => true],
      [{ status: ['error'] }, row => row.status === 'error'],
      [{ status: ['pending', 'running', 'error'] }, row => ['pending', 'running', 'error'].includes(row.status)],
      [{ status: [] }, () => false],
      [{ graph_id: '"quoted"' }, row => row.graph_id === '"quoted"'],
      [{ assistant_id: 'assistant-1' }, row => row.assistant_id === 'assistant-1'],
      [{ key_id: 'key-0' }, row => row.key_id === 'key-0'],
      [{ thread_id: mine.thread_id }, row => row.thread_id === mine.thread_id],
      [{ temporary: true }, row => row.temporary],
      [{ temporary: false }, row => !row.temporary],
      [{ from: 1_003 }, row => row.created_at >= 1_003],
      [{ until: 1_003 }, row => row.created_at < 1_003],
      [{ from: 1_003, until: 1_007 }, row => row.created_at >= 1_003 && row.created_at < 1_007],
      [{ thread_keys: ['owner=mine'] }, row => row.thread_id !== other.thread_id],
      [{ thread_keys: ['owner=nobody'] }, row => row.temporary],
      [{ thread_keys: ['owner=mine'], temporary: false }, row => row.thread_id === mine.thread_id],
      [{ status: ['error'], graph_id: 'other' }, row => row.status === 'error' && row.graph_id === 'other'],
      [
        { status: ['success', 'error'], assistant_id: 'assistant-0', key_id: 'key-1', from: 1_002, until: 1_009 },
        row =>
          ['success', 'error'].includes(row.status) &&
          row.assistant_id === 'assistant-0' &&
          row.key_id === 'key-1' &&
          row.created_at >= 1_002 &&
          row.created_at < 1_009,
      ],
      [{ thread_id: mine.thread_id, temporary: true }, () => false],
      [{ thread_id: elsewhere.thread_id }, () => false],
    ]
    for (const [conditions, matches] of cases) {
      const wanted = rows.filter(matches)
      const text = JSON.stringify(conditions)
      for (const order of ['asc', 'desc'] as const)
        for (const limit of [1, 7, 60, 100]) {
          const { found } = await ids({ app, ...conditions, order, limit })
          t.same(found, inOrder(wanted, order), `${text} ${order} ${limit}`)
        }
      t.equal(await store.runs.count({ app, ...conditions }), wanted.length, `count ${text}`)
    }
    const failed = rows.find(({ status }) => status === 'error')!
    const { rows: found } = await store.runs.search({ app, status: ['error'], order: 'asc', limit: 100 })
    const [whole] = await store.runs.summary([failed.run_id])
    t.same(
      found.find(({ run_id }) => run_id === failed.run_id),
      whole,
      'the whole row, with the text of its error',
    )
    t.equal(whole!.error, failed.error)

    await done({ step: 'runs.patch', run_id: failed.run_id, where: {}, set: { status: 'success' } })
    await done({ step: 'runs.remove', run_id: rows[9]!.run_id, where: {} })
    const left = rows.filter(row => row.status === 'error' && row !== failed && row !== rows[9])
    const after = await ids({ app, status: ['error'], order: 'desc', limit: 5 })
    t.same(after.found, inOrder(left, 'desc'), 'a run changes its place with its status')
  })

  t.test(`few among ${many} runs are found in few calls, whichever condition they are few for`, async t => {
    const app = randomUUID()
    const mine = thread({ app })
    await done({ step: 'threads.insert', row: mine, keys: ['owner=mine'] })
    const crowd = randomUUID()
    const rows = Array.from({ length: many }, (_, i) =>
      run(crowd, { app, status: 'success', assistant_id: 'common', graph_id: 'common', created_at: 2_000 + i }),
    )
    // The oldest of each is the last in the order of the search.
    const rare = {
      status: run(crowd, { app, status: 'error', assistant_id: 'common', graph_id: 'common', created_at: 1_000 }),
      graph_id: run(crowd, { app, status: 'success', assistant_id: 'common', graph_id: 'rare', created_at: 1_001 }),
      assistant_id: run(crowd, { app, status: 'success', assistant_id: 'rare', graph_id: 'common', created_at: 1_002 }),
      thread: run(mine.thread_id, {
        app,
        status: 'success',
        assistant_id: 'common',
        graph_id: 'common',
        created_at: 1_003,
      }),
    }
    await insert([...rows, ...Object.values(rare)])
    const common = { app, order: 'desc', limit: 10 } as const
    const cases: [Partial<RunConditions>, RunRow][] = [
      [{ status: ['error'], assistant_id: 'common', graph_id: 'common' }, rare.status],
      [{ status: ['success'], graph_id: 'rare', assistant_id: 'common' }, rare.graph_id],
      [{ status: ['success'], graph_id: 'common', assistant_id: 'rare' }, rare.assistant_id],
      [{ status: ['success'], graph_id: 'common', thread_keys: ['owner=mine'] }, rare.thread],
    ]
    for (const [conditions, wanted] of cases) {
      const { found, calls } = await ids({ ...common, ...conditions })
      t.same(found, [wanted.run_id])
      t.equal(calls, 1, `one call for ${JSON.stringify(conditions)}`)
    }
    t.equal(await store.runs.count({ app, status: ['success'], graph_id: 'common' }), many + 2)
    t.equal(await store.runs.count({ app }), many + 4)
  })
}
