/** Combinations of fields that nobody has written down; the seed repeats them. */
import fc from 'fast-check'
import { type Case, STORED, stream, thread } from '../case.js'

const MANY = 60

const json = fc.jsonValue({ maxDepth: 3, stringUnit: 'binary' })
const mode = fc.constantFrom('values', 'updates', 'messages-tuple', 'custom', 'tasks', 'checkpoints', 'debug')
const nodes = fc.oneof(fc.constant('*'), fc.subarray(['one', 'inner', 'inside', 'node', 'count', 'say']))

/** The official server for Python fails at null. */
const answers = json.filter(value => value !== null)

const body = fc.record(
  {
    stream_mode: fc.uniqueArray(mode, { minLength: 1, maxLength: 3 }),
    stream_subgraphs: fc.boolean(),
    interrupt_before: nodes,
    interrupt_after: nodes,
    durability: fc.constantFrom('sync', 'async', 'exit'),
    metadata: fc.dictionary(fc.string({ maxLength: 8 }), json, { maxKeys: 2 }),
    multitask_strategy: fc.constantFrom('reject', 'enqueue', 'interrupt', 'rollback'),
  },
  { requiredKeys: ['stream_mode'] },
)

const call = fc.oneof(
  fc.tuple(fc.constant('echo'), fc.record({ text: json })),
  fc.tuple(fc.constant('counter'), fc.record({ steps: fc.integer({ min: 0, max: 4 }) })),
  fc.tuple(fc.constant('outer'), fc.record({ steps: fc.integer({ min: 0, max: 2 }) })),
  fc.tuple(fc.constant('ask'), fc.record({ question: json })),
  fc.tuple(fc.constant('chat'), fc.record({ messages: fc.constant([{ role: 'user', content: 'hi', id: 'm1' }]) })),
)

export const generated = (seed: number): Case[] =>
  fc.sample(fc.tuple(call, body, answers), { seed, numRuns: MANY }).map(([[graph, input], fields, answer], at) => ({
    name: `${graph}/${at}`,
    calls: [
      thread(),
      stream(graph, { input, ...fields }),
      ...STORED,
      stream(graph, { command: { resume: answer }, stream_mode: fields.stream_mode }),
      ...STORED,
    ],
  }))
