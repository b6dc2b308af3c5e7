/** The item store. */
import { type Call, type Case, get, post } from '../case.js'
import { VALUES } from './values.js'

const put = (namespace: unknown, key: unknown, value: unknown, more: object = {}): Call => ({
  call: 'PUT /store/items',
  body: { namespace, key, value, ...more },
})
const remove = (namespace: unknown, key: unknown): Call => ({ call: 'DELETE /store/items', body: { namespace, key } })
const read = (namespace: string, key: string): Call =>
  get(`/store/items?namespace=${encodeURIComponent(namespace)}&key=${encodeURIComponent(key)}`)
const search = (body: object): Call => post('/store/items/search', body)

const KEYS = ['plain', 'with space', 'a/b', 'é', '😀', '.', 'a.b', '%41', '"', 'x'.repeat(300)]

const FILTERS: { readonly [name: string]: object } = {
  equal: { n: 1 },
  text: { s: 'two' },
  nested: { at: { a: 1 } },
  greater: { n: { $gt: 1 } },
  'greater or equal': { n: { $gte: 2 } },
  less: { n: { $lt: 2 } },
  'less or equal': { n: { $lte: 2 } },
  not: { n: { $ne: 1 } },
  range: { n: { $gt: 1, $lt: 3 } },
  two: { n: 2, s: 'two' },
  none: { n: 9 },
  null: { none: null },
  boolean: { yes: true },
  list: { list: [1, 2] },
  unknown: { n: { $in: [1] } },
}

const SEARCHES: { readonly [name: string]: object } = {
  plain: {},
  limit: { limit: 1 },
  offset: { limit: 2, offset: 1 },
  'beyond the end': { offset: 10 },
  query: { query: 'two' },
}

const seed = (space: string): Call[] => [
  { ...put([space], '1', { n: 1, s: 'one', at: { a: 1 }, none: null, yes: true, list: [1, 2] }), silent: true },
  { ...put([space], '2', { n: 2, s: 'two', at: { a: 2 } }), silent: true },
  { ...put([space, 'below'], '3', { n: 3, s: 'three' }), silent: true },
]

const NAMESPACES: { readonly [name: string]: object } = {
  prefix: { prefix: ['spaces'] },
  suffix: { prefix: ['spaces'], suffix: ['end'] },
  depth: { prefix: ['spaces'], max_depth: 2 },
  'any part': { prefix: ['spaces', '*', 'end'] },
  limit: { prefix: ['spaces'], limit: 1 },
  offset: { prefix: ['spaces'], offset: 1 },
  none: { prefix: ['absent'] },
}

export const items: readonly Case[] = [
  ...KEYS.map((key, at) => ({
    name: `key/${at}`,
    calls: [put(['keys'], key, { key }), read('keys', key), remove(['keys'], key), read('keys', key)],
  })),
  ...KEYS.map((part, at) => ({
    name: `namespace/${at}`,
    calls: [
      put(['parts', part], 'k', { part }),
      search({ namespace_prefix: ['parts', part] }),
      read(`parts.${part}`, 'k'),
    ],
  })),
  ...Object.entries(FILTERS).map(([name, filter]) => ({
    name: `filter/${name}`,
    // The official server for Python refuses all operations of a turn with one that it refuses.
    alone: name === 'unknown',
    calls: [...seed(`filter ${name}`), search({ namespace_prefix: [`filter ${name}`], filter })],
  })),
  ...Object.entries(SEARCHES).map(([name, body]) => ({
    name: `search/${name}`,
    calls: [...seed(`search ${name}`), search({ namespace_prefix: [`search ${name}`], ...body })],
  })),
  ...Object.entries(NAMESPACES).map(([name, body]) => ({
    name: `namespaces/${name}`,
    calls: [
      ...[
        ['spaces', 'a'],
        ['spaces', 'b', 'end'],
        ['spaces', 'b', 'c', 'end'],
      ].map(space => ({
        ...put(space, 'k', {}),
        silent: true,
      })),
      post('/store/namespaces', body),
    ],
  })),
  ...Object.entries(VALUES).map(([name, value]) => ({
    name: `value/${name}`,
    calls: [put(['values'], name, { value }), read('values', name)],
  })),
  {
    name: 'replace',
    calls: [
      put(['replace'], 'k', { a: 1 }),
      put(['replace'], 'k', { b: 2 }),
      read('replace', 'k'),
      put(['replace'], 'k', { c: 1 }, { index: false }),
      put(['replace'], 'k', { c: 1 }, { index: ['c'] }),
      put(['replace'], 'k', { c: 1 }, { ttl: 5 }),
      remove(['replace'], 'absent'),
    ],
  },
  ...[[], [''], ['a.b'], ['langgraph'], ['langgraph', 'x'], 'text', null, [1]].map((namespace, at) => ({
    name: `wrong namespace/${at}`,
    calls: [put(namespace, 'k', {}), search({ namespace_prefix: namespace }), remove(namespace, 'k')],
  })),
  ...['text', 1, null, [], true].map((value, at) => ({
    name: `wrong value/${at}`,
    calls: [put(['wrong'], 'k', value)],
  })),
  ...['', 1, null, [], {}].map((key, at) => ({
    name: `wrong key/${at}`,
    calls: [put(['wrong'], key, {}), remove(['wrong'], key)],
  })),
]
