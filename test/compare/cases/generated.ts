/** Combinations of fields that nobody has written down; the seed repeats them. */
import fc from 'fast-check'
import { type Case, type Language, STORED, stream, thread } from '../case.js'

const MANY = 60

const json = fc.jsonValue({ maxDepth: 3, stringUnit: 'binary' })
const mode = fc.constantFrom('values', 'updates', 'messages-tuple', 'custom', 'tasks', 'checkpoints', 'debug')
const nodes = fc.oneof(fc.constant('*'), fc.subarray(['one', 'inner', 'inside', 'node', 'count', 'say']))

/** The official server for Python fails at null. */
const answers = json.filter(value => value !== null)

const FIELDS = {
  stream_mode: fc.uniqueArray(mode, { minLength: 1, maxLength: 3 }),
  interrupt_before: nodes,
  interrupt_after: nodes,
  metadata: fc.dictionary(fc.string({ maxLength: 8 }), json, { maxKeys: 2 }),
  multitask_strategy: fc.constantFrom('reject', 'enqueue', 'interrupt', 'rollback'),
}
/** The official server for JavaScript ignores `durability`, and fails runs with `stream_subgraphs`. */
const OF_PYTHON = { ...FIELDS, stream_subgraphs: fc.boolean(), durability: fc.constantFrom('sync', 'async', 'exit') }
const bodyOf = (language: Language) =>
  fc.record(language === 'python' ? OF_PYTHON : FIELDS, { requiredKeys: ['stream_mode'] })

const call = fc.oneof(
  fc.tuple(fc.constant('echo'), fc.record({ text: json })),
  fc.tuple(fc.constant('counter'), fc.record({ steps: fc.integer({ min: 0, max: 4 }) })),
  fc.tuple(fc.constant('outer'), fc.record({ steps: fc.integer({ min: 0, max: 2 }) })),
  fc.tuple(fc.constant('ask'), fc.record({ question: json })),
  fc.tuple(fc.constant('chat'), fc.record({ messages: fc.constant([{ role: 'user', content: 'hi', id: 'm1' }]) })),
)

export const generated = (language: Language, seed: number): Case[] =>
  fc
    .sample(fc.tuple(call, bodyOf(language), answers), { seed, numRuns: MANY })
    .map(([[graph, input], fields, answer], at) => ({
      name: `${graph}/${at}`,
      calls: [
        thread(),
        stream(graph, { input, ...fields }),
        ...STORED,
        stream(graph, { command: { resume: answer }, stream_mode: fields.stream_mode }),
        ...STORED,
      ],
    }))
