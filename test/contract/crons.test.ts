import { randomUUID } from 'node:crypto'
import t from 'tap'
import { until } from '../helpers/until.js'
import { type Body, type RequestRow, type ResponseRow, requestTests, responseTests } from './rows.js'
import { startServer } from './server.js'

t.setTimeout(120_000)

/** Fires each second. Schedules of five fields, as in the contract, have their own tests. */
const SOON = '* * * * * *'
const LATER = '0 0 1 1 *'

const CRON: readonly ResponseRow[] = [
  { field: 'cron_id', type: 'uuid', required: true },
  { field: 'thread_id', type: 'uuid', required: true },
  // Always a member; null without a value, for example for a cron without an end.
  { field: 'end_time', type: 'date-time', required: true, nullable: true },
  { field: 'schedule', type: 'string', required: true },
  { field: 'created_at', type: 'date-time', required: true },
  { field: 'updated_at', type: 'date-time', required: true },
  { field: 'payload', type: 'object', required: true },
  { field: 'assistant_id', type: 'uuid', nullable: true },
  { field: 'user_id', type: 'string', nullable: true },
  { field: 'next_run_date', type: 'date-time', nullable: true },
  { field: 'metadata', type: 'object' },
]

t.test('POST /threads/{thread_id}/runs/crons', async t => {
  const { http, ok, thread, hook } = await startServer(t, { WEFT_CRON_SECONDS: '1' })
  interface Made {
    cron: Body
    thread_id: string
    /** The webhook call of its first run. */
    ended: () => Promise<Body>
  }
  let over = false
  t.teardown(() => (over = true))
  const remove = (cron: Body) => http('DELETE', `/runs/crons/${cron.cron_id}`)
  const send = async (body: Body) => {
    const answer = await http('POST', `/threads/${await thread()}/runs/crons`, body)
    if (answer.status === 200) await remove(answer.body as Body)
    return answer
  }
  const make = async (body: Body): Promise<Made> => {
    const thread_id = await thread()
    const { url, calls } = hook()
    const cron = await ok('POST', `/threads/${thread_id}/runs/crons`, { webhook: url, ...body })
    const first = until(() => (over ? {} : calls()[0]))
    void first.then(() => (over ? null : remove(cron)))
    return { cron, thread_id, ended: () => first }
  }
  const seen_config = async ({ ended }: Made) => ((await ended()).values as Body).seen_config as Body
  const { assistant_id: seenConfigId } = await ok('GET', '/assistants/seen_config')
  const own = await ok('POST', '/assistants', { graph_id: 'seen_config', config: { tags: ['own'] } })
  const paused = async ({ thread_id, ended }: Made) => {
    await ended()
    const { next, tasks } = await ok('GET', `/threads/${thread_id}/state`)
    return { next, tasks }
  }
  const end_time = '2999-12-31T22:30:00+00:00'
  const input = { steps: 2 }
  const hooked = hook()
  const long = `${hook().url}?${'x'.repeat(65_400)}`
  const waiting = { assistant_id: 'slow', schedule: SOON, input: { ms: 60_000 } }

  const rows: RequestRow<Made>[] = [
    {
      field: 'schedule',
      type: 'string',
      required: true,
      takes: [
        [
          SOON,
          async (t, made) => {
            t.equal(made.cron.schedule, SOON)
            t.match((await made.ended()).metadata, { cron_id: made.cron.cron_id }, 'it runs')
          },
        ],
        [
          '30 6 * * MON-FRI',
          (t, { cron }) => {
            const next = new Date(cron.next_run_date as string)
            t.same([next.getUTCHours(), next.getUTCMinutes(), next.getUTCSeconds()], [6, 30, 0])
            t.ok([1, 2, 3, 4, 5].includes(next.getUTCDay()))
            t.ok(next.getTime() > Date.parse(cron.created_at as string))
          },
        ],
      ],
      refuses: ['no schedule', '* * * *', '61 * * * *', '0 0 30 2 *'],
    },
    {
      field: 'assistant_id',
      type: 'string',
      required: true,
      takes: [
        ['seen_config', (t, { cron }) => void t.equal(cron.assistant_id, seenConfigId, 'the assistant of the graph')],
        [
          own.assistant_id,
          async (t, made) => {
            t.equal(made.cron.assistant_id, own.assistant_id)
            t.match(await seen_config(made), { tags: ['own'] })
          },
        ],
      ],
    },
    {
      field: 'end_time',
      type: 'date-time',
      takes: [
        [end_time, (t, { cron }) => void t.equal(Date.parse(cron.end_time as string), Date.parse(end_time))],
        [
          '2001-01-01T00:00:00Z',
          (t, { cron }) =>
            void t.match(cron, { end_time: '2001-01-01T00:00:00.000Z', next_run_date: null }, 'it fires no more'),
        ],
      ],
      absent: (t, { cron }) => void t.equal(cron.end_time, null),
      refuses: ['2999-13-01T00:00:00Z', '2999-02-30T00:00:00Z'],
    },
    {
      field: 'input',
      type: 'object',
      takes: [
        [
          input,
          async (t, made) => {
            t.same((made.cron.payload as Body).input, input)
            t.match(await made.ended(), { kwargs: { input } })
          },
        ],
      ],
      absent: async (t, made) => void t.match(await made.ended(), { kwargs: { input: null } }),
    },
    {
      field: 'metadata',
      type: 'object',
      takes: [
        [
          { who: { is: ['ada'] } },
          async (t, made) => {
            t.same(made.cron.metadata, { who: { is: ['ada'] } })
            t.match(await made.ended(), { metadata: { who: { is: ['ada'] } } }, 'its runs have it')
          },
        ],
      ],
      absent: (t, { cron }) => void t.same(cron.metadata, {}),
    },
    {
      field: 'config',
      type: 'object',
      takes: [
        [
          { tags: ['c'], recursion_limit: 8, configurable: { x: 1 } },
          async (t, made) =>
            void t.match(await seen_config(made), { tags: ['c'], recursionLimit: 8, configurable: { x: 1 } }),
        ],
      ],
      absent: async (t, made) => void t.match(await seen_config(made), { recursionLimit: 25 }),
    },
    {
      field: 'config.tags',
      type: 'array of string',
      takes: [[['only'], async (t, made) => void t.match(await seen_config(made), { tags: ['only'] })]],
    },
    {
      field: 'config.recursion_limit',
      type: 'number',
      takes: [[6, async (t, made) => void t.match(await seen_config(made), { recursionLimit: 6 })]],
    },
    {
      field: 'config.configurable',
      type: 'object',
      takes: [[{ y: [2] }, async (t, made) => void t.match(await seen_config(made), { configurable: { y: [2] } })]],
    },
    {
      field: 'context',
      type: 'object',
      takes: [[{ who: 'bob' }, async (t, made) => void t.match(await seen_config(made), { context: { who: 'bob' } })]],
    },
    {
      field: 'webhook',
      type: 'string',
      takes: [
        [
          hooked.url,
          async (t, { cron }) => {
            const call = await until(() => hooked.calls()[0])
            t.match(call, { status: 'success', metadata: { cron_id: cron.cron_id } }, 'called after the run')
          },
        ],
        [long, (t, { cron }) => void t.equal((cron.payload as Body).webhook, long)],
      ],
      refuses: ['', `http://example.com/${'x'.repeat(65_536)}`],
    },
    {
      field: 'interrupt_before',
      type: ['*'],
      takes: [['*', async (t, made) => void t.match(await paused(made), { next: ['node'] }, 'before its first node')]],
      absent: async (t, made) => void t.match(await paused(made), { next: [] }),
      also: [[], ['a']],
    },
    {
      field: 'interrupt_after',
      type: ['*'],
      takes: [
        [
          '*',
          async (t, made) => {
            await made.ended()
            t.match(
              await ok('GET', `/threads/${made.thread_id}/state`),
              { values: { seen_config: {} } },
              'after its node',
            )
          },
        ],
      ],
      also: [[], ['a']],
    },
    {
      field: 'multitask_strategy',
      type: ['reject', 'rollback', 'interrupt', 'enqueue'],
      takes: (['reject', 'rollback', 'interrupt', 'enqueue'] as const).map(strategy => [
        strategy,
        (t, { cron }) => void t.match(cron.payload, { multitask_strategy: strategy }),
      ]),
    },
  ]
  await requestTests(t, {
    name: 'request',
    good: () => ({ assistant_id: 'seen_config', schedule: SOON, input: {} }),
    send,
    make,
    rows,
  })

  await t.test('multitask_strategy: what each does to a run that is in progress', async t => {
    const outcomes = await Promise.all(
      [undefined, 'enqueue', 'interrupt', 'rollback', 'reject'].map(async multitask_strategy => {
        const thread_id = await thread()
        const { url, calls } = hook()
        const first = await ok('POST', `/threads/${thread_id}/runs`, { ...waiting, webhook: url })
        const strategy = multitask_strategy === undefined ? {} : { multitask_strategy }
        const cron = await ok('POST', `/threads/${thread_id}/runs/crons`, {
          assistant_id: 'seen_config',
          schedule: SOON,
          input: {},
          ...strategy,
          webhook: url,
        })
        const status = async () => {
          const answer = await http('GET', `/threads/${thread_id}/runs/${first.run_id}`)
          return answer.status === 200 ? ((answer.body as Body).status as string) : 'gone'
        }
        // After the second firing the time of the first has certainly passed.
        const slot = async () => (await ok('GET', `/runs/crons/${cron.cron_id}`)).next_run_date
        for (const before = new Set([await slot()]); before.size < 3; ) {
          await new Promise(done => setTimeout(done, 50))
          before.add(await slot())
        }
        const ended = multitask_strategy === 'interrupt' || multitask_strategy === 'rollback'
        if (ended) await until(async () => ((await status()) === 'running' ? undefined : true))
        if (ended) await until(() => calls().find(call => call.run_id !== first.run_id))
        const found = await status()
        await http('DELETE', `/runs/crons/${cron.cron_id}`)
        const others = calls().filter(call => call.run_id !== first.run_id).length > 0
        await http('POST', `/threads/${thread_id}/runs/${first.run_id}/cancel`)
        return [found, others]
      }),
    )
    t.same(
      outcomes,
      [
        ['running', false],
        ['running', false],
        ['interrupted', true],
        ['gone', true],
        ['running', false],
      ],
      'left out and enqueue: it waits; interrupt and rollback: it takes over; reject: it is left out',
    )
  })

  const made = await Promise.all([
    make({ assistant_id: 'seen_config', schedule: LATER }),
    make({
      assistant_id: 'seen_config',
      schedule: LATER,
      end_time,
      metadata: { a: 1 },
      input,
      config: {},
      context: {},
    }),
  ])
  await responseTests(
    t,
    'response',
    CRON,
    made.map(({ cron }) => cron),
  )

  await t.test('new runs are created from the payload', async t => {
    const body = {
      assistant_id: 'seen_config',
      schedule: LATER,
      input,
      metadata: { a: 1 },
      config: { tags: ['x'] },
      context: { y: 1 },
    }
    const { cron } = await make({ ...body, interrupt_before: '*', interrupt_after: '*', multitask_strategy: 'reject' })
    t.match(cron.payload, {
      ...body,
      assistant_id: seenConfigId,
      interrupt_before: '*',
      interrupt_after: '*',
      multitask_strategy: 'reject',
    })
  })

  await t.test('path: thread_id', async t => {
    for (const [id, status] of [
      ['no-uuid', 422],
      [randomUUID(), 404],
    ] as const) {
      const answer = await http('POST', `/threads/${id}/runs/crons`, { assistant_id: 'seen_config', schedule: LATER })
      t.equal(answer.status, status, id)
      t.type((answer.body as Body).detail, 'string')
    }
  })
  await t.test('an assistant that does not exist: 404 with one sentence', async t => {
    for (const assistant_id of ['no such graph', randomUUID()]) {
      const answer = await send({ assistant_id, schedule: LATER })
      t.equal(answer.status, 404)
      t.type((answer.body as Body).detail, 'string')
    }
  })
})
