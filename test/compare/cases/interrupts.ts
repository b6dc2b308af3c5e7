/** Interrupts, breakpoints, and commands that continue. */
import { type Call, type Case, get, STORED, stream, thread, wait } from '../case.js'

const GRAPHS = { ask: {}, asks: {}, outer: { steps: 1 } }

const COMMANDS: { readonly [name: string]: object } = {
  resume: { resume: 'yes' },
  'resume null': { resume: null },
  'resume by an unknown id': { resume: { '0123456789abcdef0123456789abcdef': 1 } },
  'resume and update': { resume: 5, update: { steps: 9 } },
  goto: { goto: '__end__' },
  'update by pairs': { resume: 1, update: [['steps', 3]] },
  'goto an absent node': { goto: 'absent' },
  empty: {},
}

const BREAKPOINTS: { readonly [name: string]: object } = {
  'before one': { interrupt_before: ['inner'] },
  'after one': { interrupt_after: ['one'] },
  'before all': { interrupt_before: '*' },
  'after all': { interrupt_after: '*' },
  'before an absent node': { interrupt_before: ['absent'] },
  none: { interrupt_before: [], interrupt_after: [] },
}

const ANSWERED_BY_ID: readonly Call[] = [
  get('/threads/{thread}/state', { save: { first: 'tasks.0.interrupts.0.id', second: 'tasks.1.interrupts.0.id' } }),
]

export const interrupts: readonly Case[] = [
  ...Object.entries(GRAPHS).flatMap(([graph, input]) =>
    Object.entries(COMMANDS).map(([name, command]) => ({
      name: `${graph}/${name}`,
      calls: [thread(), wait(graph, { input }), ...STORED, wait(graph, { command }), ...STORED],
    })),
  ),
  ...Object.keys(GRAPHS).map(graph => ({
    name: `stream/${graph}`,
    calls: [
      thread(),
      stream(graph, { input: GRAPHS[graph as keyof typeof GRAPHS], stream_mode: ['values', 'updates', 'tasks'] }),
      stream(graph, { command: { resume: 1 }, stream_mode: ['values', 'updates', 'tasks'] }),
    ],
  })),
  ...Object.entries(BREAKPOINTS).map(([name, fields]) => ({
    name: `breakpoint/${name}`,
    calls: [
      thread(),
      wait('outer', { input: {}, ...fields }),
      ...STORED,
      wait('outer', { input: null }),
      ...STORED,
      stream('outer', { input: {}, stream_mode: ['values', 'updates'], ...fields }),
    ],
  })),
  {
    name: 'answers by id',
    calls: [
      thread(),
      wait('asks', { input: {} }),
      ...ANSWERED_BY_ID,
      wait('asks', { command: { resume: { '{first}': 'a' } } }),
      wait('asks', { command: { resume: { '{second}': 'b' } } }),
      ...STORED,
    ],
  },
  {
    name: 'both answers by id',
    calls: [
      thread(),
      wait('asks', { input: {} }),
      ...ANSWERED_BY_ID,
      wait('asks', { command: { resume: { '{first}': 'a', '{second}': 'b' } } }),
      ...STORED,
    ],
  },
  {
    name: 'new input',
    calls: [thread(), wait('ask', { input: {} }), wait('ask', { input: { question: 'other' } }), ...STORED],
  },
  { name: 'resume of nothing', calls: [thread(), wait('ask', { command: { resume: 1 } }), ...STORED] },
  {
    name: 'resume of an ended thread',
    calls: [thread(), wait('echo', { input: { text: 1 } }), wait('echo', { command: { resume: 1 } }), ...STORED],
  },
]
