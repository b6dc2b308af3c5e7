/** Every stream mode of every graph, with and without subgraphs and threads. */
import { type Case, post, stream, thread } from '../case.js'

const MODES = [
  'values',
  'updates',
  'messages',
  'messages-tuple',
  'custom',
  'tasks',
  'checkpoints',
  'debug',
  'events',
  'tools',
]

const GRAPHS: { readonly [graph: string]: object } = {
  echo: { text: 'hi' },
  chat: { messages: [{ role: 'user', content: 'hi', id: 'm1' }] },
  counter: { steps: 2 },
  outer: {},
  ask: {},
  fail: { text: 'oh' },
}

const SEVERAL = [
  ['values', 'updates'],
  ['updates', 'messages-tuple', 'custom'],
  ['values', 'values'],
  ['debug', 'tasks', 'checkpoints'],
  [],
]

const FIELDS: { readonly [name: string]: object } = {
  resumable: { stream_resumable: true },
  'feedback keys': { feedback_keys: ['good'] },
  'no mode': { stream_mode: null },
  'a text': { stream_mode: 'updates' },
}

export const streams: readonly Case[] = [
  ...Object.entries(GRAPHS).flatMap(([graph, input]) =>
    MODES.flatMap(mode =>
      [false, true].map(stream_subgraphs => ({
        name: `${graph}/${mode}${stream_subgraphs ? ' with subgraphs' : ''}`,
        calls: [thread(), stream(graph, { input, stream_mode: [mode], stream_subgraphs })],
      })),
    ),
  ),
  ...Object.entries(GRAPHS).flatMap(([graph, input]) =>
    SEVERAL.map(stream_mode => ({
      name: `${graph}/${stream_mode.join(' and ') || 'an empty list'}`,
      calls: [post('/runs/stream', { assistant_id: graph, input, stream_mode })],
    })),
  ),
  ...Object.entries(FIELDS).map(([name, fields]) => ({
    name: `field/${name}`,
    calls: [thread(), stream('counter', { input: { steps: 2 }, ...fields })],
  })),
]
