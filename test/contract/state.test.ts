import { randomUUID } from 'node:crypto'
import t from 'tap'
import { type Body, type ResponseRow, responseTests } from './rows.js'
import { openServer } from './server.js'

t.setTimeout(120_000)

const STATE: readonly ResponseRow[] = [
  { field: 'values', type: 'object', required: true },
  { field: 'next', type: 'array of string', required: true },
  { field: 'checkpoint', type: 'object', required: true },
  { field: 'metadata', type: 'object', required: true },
  { field: 'created_at', type: 'date-time', required: true },
  { field: 'tasks', type: 'array' },
  { field: 'parent_checkpoint', type: 'object', nullable: true },
  { field: 'interrupts', type: 'array' },
]
const CHECKPOINT: readonly ResponseRow[] = [
  { field: 'thread_id', type: 'uuid', required: true },
  { field: 'checkpoint_ns', type: 'string', required: true },
  { field: 'checkpoint_id', type: 'string', required: true },
  { field: 'checkpoint_map', type: 'object', nullable: true },
]
const TASK: readonly ResponseRow[] = [
  { field: 'id', type: 'string', required: true },
  { field: 'name', type: 'string', required: true },
  { field: 'error', type: 'string', nullable: true },
  { field: 'interrupts', type: 'array', required: true },
  { field: 'checkpoint', type: 'object', nullable: true },
  { field: 'state', type: 'object', nullable: true },
]
const INTERRUPT: readonly ResponseRow[] = [
  { field: 'id', type: 'string', required: true },
  { field: 'value', type: 'any', required: true },
]

t.test('GET /threads/{thread_id}/state', async t => {
  const { http, ok, thread } = await openServer(t)
  const after = async (assistant_id: string, input: Body) => {
    const thread_id = await thread()
    await http('POST', `/threads/${thread_id}/runs/wait`, { assistant_id, input })
    return thread_id
  }
  const state = (thread_id: string, query = '') => ok('GET', `/threads/${thread_id}/state${query}`)
  const done = await after('counter', { steps: 3 })
  const asking = await after('ask', { question: { deep: ['why?'] } })
  const inside = await after('nested', {})
  const failed = await after('fail', { message: 'so bad' })

  const plain = await Promise.all([done, asking, inside, failed].map(id => state(id)))
  const whole = await state(inside, '?subgraphs=true')
  const tasks = [...plain, whole].flatMap(one => one.tasks as Body[])
  const interrupts = [...plain, whole].flatMap(one => one.interrupts as Body[])
  const nested = (whole.tasks as Body[])[0]!.state as Body
  await responseTests(t, 'state', STATE, [...plain, whole, nested])
  await responseTests(t, 'checkpoint', CHECKPOINT, [
    ...plain.map(one => one.checkpoint),
    nested.checkpoint,
    ...plain.map(one => one.parent_checkpoint).filter(Boolean),
  ])
  await responseTests(t, 'task', TASK, tasks)
  await responseTests(t, 'interrupt', INTERRUPT, [
    ...interrupts,
    ...tasks.flatMap(one => one.interrupts as Body[]),
    ...(nested.interrupts as Body[]),
  ])

  await t.test('the values of the fields', async t => {
    const [end, asked, , bad] = plain as [Body, Body, Body, Body]
    t.match(end, { values: { steps: 3, numbers: [1, 2, 3] }, next: [], tasks: [], interrupts: [] })
    t.match(end.checkpoint, { thread_id: done, checkpoint_ns: '' })
    t.match(end.parent_checkpoint, { thread_id: done, checkpoint_ns: '' })
    t.match(end.metadata, { source: 'loop', step: 3 })
    t.match(asked, { next: ['node'], interrupts: [{ value: { question: { deep: ['why?'] } } }] })
    t.same(asked.interrupts, (asked.tasks as Body[])[0]!.interrupts)
    t.match(bad, { next: ['bad'], tasks: [{ name: 'bad', error: /so bad/ }] }, 'a task has its error')
  })

  await t.test('query: subgraphs', async t => {
    const [task] = whole.tasks as Body[]
    t.match(task, { name: 'sub', checkpoint: null, interrupts: [{ value: 'a number?' }] })
    t.match(nested, {
      values: { numbers: [1, 2] },
      next: ['asking'],
      checkpoint: { thread_id: inside, checkpoint_ns: /^sub:/ },
    })
    for (const yes of ['True', '1', 'yes', 'TRUE'])
      t.same(await state(inside, `?subgraphs=${yes}`), whole, `${yes} is true`)
    const without = plain[2]!
    t.match(without.tasks, [{ name: 'sub', state: null, checkpoint: { checkpoint_ns: /^sub:/ } }], 'without it: false')
    for (const no of ['false', '0', 'no', ''])
      t.same(await state(inside, `?subgraphs=${no}`), without, `"${no}" is false`)
    for (const wrong of ['maybe', '2', '[]', '{}', 'null', 'truefalse']) {
      const { status, body } = await http('GET', `/threads/${inside}/state?subgraphs=${wrong}`)
      t.equal(status, 422, `refuses ${wrong}`)
      t.type((body as Body).detail, 'string', 'with a sentence')
    }
  })

  await t.test('path: thread_id', async t => {
    for (const [id, status] of [
      ['no-uuid', 422],
      ['5', 422],
      [randomUUID(), 404],
    ] as const) {
      const answer = await http('GET', `/threads/${id}/state`)
      t.equal(answer.status, status, id)
      t.type((answer.body as Body).detail, 'string')
    }
  })

  await t.test('a thread without runs has every field, and no checkpoint', async t => {
    const empty = await state(await thread())
    t.match(empty, {
      values: {},
      next: [],
      tasks: [],
      metadata: {},
      checkpoint: null,
      created_at: null,
      interrupts: [],
    })
    t.same(Object.keys(empty).sort(), STATE.map(({ field }) => field).sort())
  })
})
