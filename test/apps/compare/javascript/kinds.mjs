// A value of a kind that JSON does not have, at the place that the input names.
import { Document } from '@langchain/core/documents'
import { HumanMessage } from '@langchain/core/messages'
import { Annotation, END, interrupt, START, StateGraph } from '@langchain/langgraph'

class Point {
  constructor(x, y) {
    this.x = x
    this.y = y
  }
  get length() {
    return Math.hypot(this.x, this.y)
  }
}

class Shown {
  toJSON() {
    return { shown: true }
  }
}

const KINDS = {
  null: () => null,
  undefined: () => undefined,
  integer: () => 7,
  float: () => 1.5,
  'negative zero': () => -0,
  'not a number': () => Number.NaN,
  infinity: () => [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY],
  text: () => 'é \u{1f600} \u2028',
  bytes: () => new Uint8Array([0, 255, 97]),
  buffer: () => Buffer.from('abc'),
  date: () => new Date('2024-02-29T12:30:01.005Z'),
  set: () => new Set([1]),
  map: () => new Map([['a', 1]]),
  'big integer': () => 2n ** 70n,
  class: () => new Point(3, 4),
  'to json': () => new Shown(),
  pattern: () => /a+/g,
  url: () => new URL('http://127.0.0.1/a'),
  message: () => new HumanMessage({ content: 'hi', id: 'm1' }),
  document: () => new Document({ pageContent: 'text', metadata: { at: 1 } }),
  'integer keys': () => ({ 1: 'one', 2: { 3: 'three' } }),
  'undefined members': () => ({ a: undefined, b: [undefined, 1] }),
  'no prototype': () => Object.assign(Object.create(null), { a: 1 }),
  sparse: () => Object.assign([1], { 2: 3 }),
  empty: () => [{}, [], '', new Set(), new Map()],
  nested: () => ({ a: [new Point(1, 2), new Date(0)] }),
  exception: () => new TypeError('wrong'),
  function: () => () => 1,
  symbol: () => Symbol('s'),
}

const Kind = Annotation.Root({ kind: Annotation(), place: Annotation(), value: Annotation() })

export const kinds = new StateGraph(Kind)
  .addNode('make', async ({ kind, place }, { writer, store }) => {
    const value = KINDS[kind]()
    if (place === 'state') return { value }
    if (place === 'custom') writer?.({ value })
    if (place === 'interrupt') interrupt({ value })
    if (place === 'store') await store.put(['compare', 'kinds'], kind, { value })
    return {}
  })
  .addEdge(START, 'make')
  .addEdge('make', END)
  .compile()
