/** Crons, whose times never come. */
import { type Call, type Case, get, post, thread } from '../case.js'

const YEARLY = '0 0 1 1 *'
const FIELDS: { readonly [name: string]: object } = {
  plain: {},
  input: { input: { text: 'x' } },
  'input of a text': { input: 'x' },
  'input of a list': { input: [1] },
  metadata: { metadata: { a: 1 } },
  config: { config: { configurable: { model: 'm' } } },
  context: { context: { model: 'm' } },
  'end time': { end_time: '2099-01-01T00:00:00Z' },
  timezone: { timezone: 'Europe/Berlin' },
  webhook: { webhook: 'https://example.com/hook' },
  interrupts: { interrupt_before: ['node'], interrupt_after: '*' },
  disabled: { enabled: false },
  'on completion': { on_run_completed: 'keep' },
  'stream mode': { stream_mode: ['updates'], stream_subgraphs: true, stream_resumable: true, durability: 'sync' },
  'wrong schedule': { schedule: 'every day' },
  'six fields': { schedule: '0 0 0 1 1 *' },
  'wrong timezone': { timezone: 'Mars/Olympus' },
  'past end': { end_time: '2001-01-01T00:00:00Z' },
  'wrong end': { end_time: 'tomorrow' },
  'absent assistant': { assistant_id: 'absent' },
}

const CHANGES: readonly object[] = [
  { schedule: '0 0 2 2 *' },
  { enabled: false },
  { end_time: '2099-01-01T00:00:00Z' },
  { input: { text: 'y' } },
  { metadata: { b: 2 } },
  { schedule: 'never' },
  {},
]

const create = (path: string, body: object = {}): Call =>
  post(path, { assistant_id: 'echo', schedule: YEARLY, ...body }, { save: { cron: 'cron_id' } })
const remove: Call = { call: 'DELETE /runs/crons/{cron}' }

export const crons: readonly Case[] = [
  ...Object.entries(FIELDS).flatMap(([name, fields]) => [
    { name: `create/${name}`, calls: [create('/runs/crons', fields), get('/runs/crons/{cron}'), remove] },
    { name: `thread/${name}`, calls: [thread(), create('/threads/{thread}/runs/crons', fields), remove, remove] },
  ]),
  {
    name: 'change',
    calls: [
      create('/runs/crons', { metadata: { a: 1 } }),
      ...CHANGES.map(body => ({ call: 'PATCH /runs/crons/{cron}', body })),
      get('/runs/crons/{cron}'),
      remove,
    ],
  },
  {
    name: 'search',
    calls: [
      thread(),
      create('/threads/{thread}/runs/crons'),
      create('/threads/{thread}/runs/crons', { schedule: '0 0 2 2 *' }),
      ...[
        {},
        { limit: 1 },
        { offset: 1 },
        { assistant_id: 'echo' },
        { enabled: false },
        { sort_by: 'created_at', sort_order: 'asc' },
        { select: ['cron_id', 'schedule'] },
      ].flatMap(body => [
        post('/runs/crons/search', { thread_id: '{thread}', ...body }),
        post('/runs/crons/count', { thread_id: '{thread}', ...body }),
      ]),
    ],
  },
]
