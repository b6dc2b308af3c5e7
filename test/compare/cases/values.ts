/** JSON values of every kind, in each place that takes one. */
import { type Case, get, post, STORED, thread, wait } from '../case.js'

const nested = (depth: number): unknown => (depth === 0 ? 'end' : { in: [nested(depth - 1)] })

export const VALUES: { readonly [name: string]: unknown } = {
  null: null,
  true: true,
  false: false,
  zero: 0,
  integer: 42,
  negative: -1,
  fraction: 0.1,
  'small fraction': 5e-324,
  'large fraction': 1.7976931348623157e308,
  '2^53': 2 ** 53,
  '10^21': 1e21,
  'empty text': '',
  text: 'text',
  unicode: 'é ñ 漢字 \u0301',
  emoji: '👩‍👩‍👧‍👦 😀',
  'line separators': 'a\u2028b\u2029c\r\n\t',
  'control characters': '\u0001\u001f\u007f',
  'replacement character': '\ufffd',
  quotes: '"\\\'</script>',
  'long text': 'x'.repeat(20_000),
  'empty list': [],
  'empty object': {},
  list: [1, 'two', null, [true]],
  object: { a: 1, b: { c: null } },
  'empty name': { '': 1 },
  'odd names': { 'a.b': 1, $set: 2, 'é 😀': 3, toString: 4, constructor: 5, '0': 6 },
  'order of names': { z: 1, a: 2, 10: 3, 9: 4 },
  nested: nested(20),
  'like a message': { type: 'human', content: 'hi' },
  'like an interrupt': { __interrupt__: [{ value: 1, id: 'x' }] },
  'like a serialized object': { lc: 1, type: 'constructor', id: ['a', 'B'], kwargs: { a: 1 } },
  'like a time': '2024-02-29T12:30:01.123456+02:00',
  'like an id': '6BA7B821-9DAD-11D1-80B4-00C04FD430C8',
}

/** Bodies whose text says more than its value. */
const TEXTS: { readonly [name: string]: string } = {
  'large integer': '12345678901234567890',
  'negative large integer': '-9007199254740993',
  'whole fraction': '1.0',
  exponent: '1e2',
  'negative zero': '-0.0',
  'beyond a double': '1e400',
  'half of a surrogate pair': '"\\ud800"',
  'escaped pair': '"\\ud83d\\ude00"',
  NUL: '"a\\u0000b"',
  duplicates: '{"a":1,"a":2}',
  'own prototype': '{"__proto__":{"a":1}}',
  NaN: 'NaN',
  Infinity: 'Infinity',
  'trailing comma': '[1,]',
  'deep nesting': `${'['.repeat(300)}${']'.repeat(300)}`,
}

const PLACES: { readonly [place: string]: (value: unknown) => Case['calls'] } = {
  input: value => [thread(), wait('echo', { input: { text: value } }), ...STORED],
  metadata: value => [
    post('/threads', { metadata: { value } }, { save: { thread: 'thread_id' } }),
    get('/threads/{thread}'),
  ],
  resume: value => [thread(), wait('ask', { input: {} }), wait('ask', { command: { resume: value } }), ...STORED],
  interrupt: value => [thread(), wait('ask', { input: { question: value } }), ...STORED],
  configurable: value => [
    post('/runs/wait', { assistant_id: 'seen', input: {}, config: { configurable: { model: value } } }),
  ],
  context: value => [post('/runs/wait', { assistant_id: 'seen', input: {}, context: { model: value } })],
  'metadata of a run': value => [
    thread(),
    post(
      '/threads/{thread}/runs',
      { assistant_id: 'seen', input: {}, metadata: { purpose: value } },
      { save: { run: 'run_id' } },
    ),
    get('/threads/{thread}/runs/{run}/join'),
    get('/threads/{thread}/runs/{run}'),
  ],
  update: value => [
    thread({ metadata: { graph_id: 'echo' } }),
    post('/threads/{thread}/state', { values: { seen: value }, as_node: 'node' }),
    get('/threads/{thread}/state'),
  ],
  'store of a graph': value => [post('/runs/wait', { assistant_id: 'stored', input: { text: value, seen: '{case}' } })],
  'whole input': value => [post('/runs/wait', { assistant_id: 'echo', input: value })],
}

export const values: readonly Case[] = [
  ...Object.entries(PLACES).flatMap(([place, calls]) =>
    Object.entries(VALUES).map(([name, value]) => ({ name: `${place}/${name}`, calls: calls(value) })),
  ),
  ...Object.entries(TEXTS).flatMap(([name, text]) => [
    {
      name: `text in input/${name}`,
      calls: [post('/runs/wait', undefined, { text: `{"assistant_id":"echo","input":{"text":${text}}}` })],
    },
    {
      name: `text in metadata/${name}`,
      calls: [post('/threads', undefined, { text: `{"metadata":{"value":${text}}}` })],
    },
  ]),
]
