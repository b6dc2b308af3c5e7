import { randomUUID } from 'node:crypto'
import t from 'tap'
import { type Body, type RequestRow, requestTests, responseTests } from './rows.js'
import { openServer } from './server.js'

t.setTimeout(120_000)

t.test('POST /assistants', async t => {
  const { http, ok } = await openServer(t)
  /** The config that a run of the assistant receives. */
  const configOf = async ({ assistant_id }: Body) =>
    (await ok('POST', '/runs/wait', { assistant_id, input: {} })).seen_config as Body & { configurable: Body }
  const stored = async (made: Body) => ok('GET', `/assistants/${made.assistant_id}`)
  const kept = async (field: string, value: unknown) => {
    const made = await ok('POST', '/assistants', { graph_id: 'seen_config', [field]: value })
    return [made[field], (await stored(made))[field]]
  }

  const known = randomUUID()
  await ok('POST', '/assistants', { graph_id: 'seen_config', assistant_id: known, name: 'first' })
  const given = randomUUID()

  const rows: RequestRow<Body>[] = [
    {
      field: 'graph_id',
      type: 'string',
      required: true,
      takes: [
        [
          'echo',
          async (t, made) => {
            t.equal(made.graph_id, 'echo')
            const values = await ok('POST', '/runs/wait', { assistant_id: made.assistant_id, input: { text: 'a' } })
            t.match(values, { seen: 'a' }, 'a run executes this graph')
          },
        ],
      ],
    },
    {
      field: 'assistant_id',
      type: 'uuid',
      takes: [[given, (t, made) => void t.equal(made.assistant_id, given)]],
      absent: (t, made) => void t.match(made.assistant_id, /^[0-9a-f]{8}-[0-9a-f]{4}-/, 'one is made'),
    },
    {
      field: 'config',
      type: 'object',
      takes: [
        [
          { tags: ['a'], recursion_limit: 7, configurable: { x: 1 } },
          async (t, made) => {
            t.match(made.config, { tags: ['a'], recursion_limit: 7, configurable: { x: 1 } })
            t.match(
              await configOf(made),
              { tags: ['a'], recursionLimit: 7, configurable: { x: 1 } },
              'it reaches the runs',
            )
          },
        ],
        [{}, (t, made) => void t.same(made.config, {})],
      ],
      absent: (t, made) => void t.same(made.config, {}),
    },
    {
      field: 'config.tags',
      type: 'array of string',
      takes: [[['a', 'b'], async (t, made) => void t.match(await configOf(made), { tags: ['a', 'b'] })]],
    },
    {
      field: 'config.recursion_limit',
      type: 'number',
      takes: [[9, async (t, made) => void t.match(await configOf(made), { recursionLimit: 9 })]],
    },
    {
      field: 'config.configurable',
      type: 'object',
      takes: [
        [
          { deep: { er: [1] } },
          async (t, made) => void t.match(await configOf(made), { configurable: { deep: { er: [1] } } }),
        ],
      ],
    },
    {
      field: 'context',
      type: 'object',
      takes: [
        [
          { who: 'ada' },
          async (t, made) => {
            t.same(made.context, { who: 'ada' })
            t.match(await configOf(made), { context: { who: 'ada' } })
          },
        ],
      ],
      absent: (t, made) => void t.same(made.context, {}),
    },
    {
      field: 'metadata',
      type: 'object',
      takes: [
        [
          { team: { a: [1, null] } },
          async (t, made) => {
            t.same(made.metadata, { team: { a: [1, null] } })
            t.match(await configOf(made), { metadata: { team: { a: [1, null] } } }, 'its runs receive it')
          },
        ],
      ],
      absent: (t, made) => void t.same(made.metadata, {}),
    },
    {
      field: 'if_exists',
      type: ['raise', 'do_nothing'],
      takes: [
        [
          'raise',
          async t => {
            const body = { graph_id: 'seen_config', assistant_id: known, if_exists: 'raise' }
            const { status, body: error } = await http('POST', '/assistants', body)
            t.equal(status, 409)
            t.type((error as Body).detail, 'string')
          },
        ],
        [
          'do_nothing',
          async t => {
            const body = { graph_id: 'echo', assistant_id: known, if_exists: 'do_nothing', name: 'second' }
            t.match(await ok('POST', '/assistants', body), {
              assistant_id: known,
              graph_id: 'seen_config',
              name: 'first',
            })
          },
        ],
      ],
      absent: async t => {
        const { status } = await http('POST', '/assistants', { graph_id: 'seen_config', assistant_id: known })
        t.equal(status, 409, 'the default is raise')
      },
    },
    {
      field: 'name',
      type: 'string',
      takes: [['Mine é', (t, made) => void t.equal(made.name, 'Mine é')]],
      absent: (t, made) => void t.equal(made.name, 'Untitled'),
    },
    {
      field: 'description',
      type: 'string',
      takes: [['what it does', (t, made) => void t.equal(made.description, 'what it does')]],
      absent: (t, made) => void t.equal(made.description, null),
    },
  ]
  await requestTests(t, {
    name: 'request',
    good: () => ({ graph_id: 'seen_config' }),
    send: body => http('POST', '/assistants', body),
    make: body => ok('POST', '/assistants', body),
    rows,
  })

  await t.test('the answer has every field that the request gave', async t => {
    for (const [field, value] of Object.entries({
      metadata: { a: 1, n: null },
      name: 'x',
      description: 'd',
      config: { tags: ['t'] },
    })) {
      const [answered, again] = await kept(field, value)
      t.same([answered, again], [value, value], field)
    }
  })

  const objects = [
    await ok('POST', '/assistants', { graph_id: 'seen_config', description: 'd', context: { a: 1 } }),
    await ok('POST', '/assistants', { graph_id: 'seen_config' }),
    await ok('GET', '/assistants/seen_config'),
  ]
  await responseTests(
    t,
    'response',
    [
      { field: 'assistant_id', type: 'uuid', required: true },
      { field: 'graph_id', type: 'string', required: true },
      { field: 'config', type: 'object', required: true },
      { field: 'created_at', type: 'date-time', required: true },
      { field: 'updated_at', type: 'date-time', required: true },
      { field: 'metadata', type: 'object', required: true },
      { field: 'context', type: 'object' },
      { field: 'version', type: 'integer' },
      { field: 'name', type: 'string' },
      { field: 'description', type: 'string', nullable: true },
    ],
    objects,
  )

  await t.test('a graph that does not exist: 404 with one sentence', async t => {
    const { status, body } = await http('POST', '/assistants', { graph_id: 'no such graph' })
    t.equal(status, 404)
    t.type((body as Body).detail, 'string')
  })
})
