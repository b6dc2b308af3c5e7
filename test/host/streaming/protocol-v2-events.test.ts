import t from 'tap'
import type { Batch } from '../../../bus/follow.js'
import { openTagFilter } from '../../../edge/protocols/v2-filter.js'
import { readTag, tagText } from '../../../schemas/protocols/v2.js'
import { firstIdOf } from '../../../schemas/subjects.js'
import { endSeqOf, idBefore, seqOf, stateSeqOf } from '../../../schemas/thread-stream.js'
import { contentOf, type StreamedMessage } from '../../../workers/host/streaming/content.js'
import { runEvents } from '../../../workers/host/streaming/events.js'
import { startHost } from '../host-helper.js'

const ORIGIN = { graph: [], task: ['talk:1'], node: 'talk' }
const chunk = (more: Partial<StreamedMessage>): StreamedMessage => ({ id: 'm1', content: '', concat: true, ...more })

/** The data of the events of these messages, without the members that identify the message. */
function contentEvents(...messages: (StreamedMessage | 'finish' | 'fail')[]) {
  const out: { [name: string]: unknown }[] = []
  const content = contentOf((_origin, { run_id: _, ...data }) => out.push(structuredClone(data)))
  for (const message of messages) {
    if (message === 'finish') content.finish(ORIGIN.task)
    else if (message === 'fail') content.fail('no more')
    else content.take(ORIGIN, message, { langgraph_node: 'talk' })
  }
  return out
}
const kinds = (events: { [name: string]: unknown }[]) => events.map(one => one.event)

t.test('blocks of a message do not interleave, and each finishes before the next starts', async t => {
  const events = contentEvents(
    chunk({ content: [{ type: 'thinking', thinking: 'hm', index: 0 }] }),
    chunk({ content: [{ type: 'thinking', thinking: ' yes', index: 0 }] }),
    chunk({ content: [{ type: 'text', text: 'Look', index: 1 }] }),
    chunk({ content: [{ type: 'text_delta', text: 'ing', index: 1 }] }),
    chunk({ tool_call_chunks: [{ index: 2, id: 'c1', name: 'find', args: '{"a"' }] }),
    chunk({ tool_call_chunks: [{ index: 2, args: ':1}' }], usage_metadata: { input_tokens: 1, output_tokens: 2 } }),
    chunk({
      tool_call_chunks: [{ index: 3, id: 'c2', name: 'find', args: '{' }],
      usage_metadata: { output_tokens: 3 },
    }),
    'finish',
  )
  t.same(
    events.map(one => [one.event, one.index]),
    [
      ['message-start', undefined],
      ...[0, 1, 2, 3].flatMap(index => [
        ['content-block-start', index],
        ...Array(index === 3 ? 1 : 2).fill(['content-block-delta', index]),
        ['content-block-finish', index],
      ]),
      ['message-finish', undefined],
    ],
  )
  t.same(
    events.filter(one => one.event === 'content-block-finish').map(one => one.content),
    [
      { type: 'reasoning', reasoning: 'hm yes' },
      { type: 'text', text: 'Looking' },
      { type: 'tool_call', id: 'c1', name: 'find', args: { a: 1 } },
      { type: 'invalid_tool_call', id: 'c2', name: 'find', args: '{', error: 'The arguments are no JSON' },
    ],
  )
  t.match(
    events.filter(one => one.event === 'content-block-delta').at(-2),
    { delta: { type: 'block-delta', fields: { type: 'tool_call_chunk', id: 'c1', name: 'find', args: '{"a":1}' } } },
    'a patch carries what has come so far, because it replaces',
  )
  t.same(events.at(-1)!.usage, { input_tokens: 1, output_tokens: 5 })
})

t.test('concurrent messages stay separate; a failure marks open messages', async t => {
  const events = contentEvents(
    chunk({ content: 'a' }),
    chunk({ id: 'm2', content: 'x' }),
    chunk({ content: 'b' }),
    'finish',
  )
  for (const [id, text] of [
    ['m1', 'ab'],
    ['m2', 'x'],
  ]) {
    const mine = events.filter(one => one.message_id === id)
    t.same(mine.at(-2)!.content, { type: 'text', text })
    t.equal(mine.at(-1)!.event, 'message-finish')
  }
  t.same(kinds(contentEvents(chunk({ content: 'a' }), 'fail', 'finish')).at(-1), 'error')
  t.same(contentEvents(chunk({ id: undefined, content: 'of an unknown message' })), [])
})

t.test('whole messages: human, tool, with tool calls and with images', async t => {
  const person = contentEvents({ id: 'h', type: 'human', content: 'hi' })
  t.same(kinds(person), [
    'message-start',
    'content-block-start',
    'content-block-delta',
    'content-block-finish',
    'message-finish',
  ])
  t.match(person[0], { role: 'human', id: 'h', metadata: { langgraph_node: 'talk' } })
  t.match(contentEvents({ id: 't', type: 'tool', content: '', tool_call_id: 'c1' }), [
    { role: 'tool', tool_call_id: 'c1' },
    { event: 'message-finish' },
  ])
  const image = { type: 'image', url: 'https://x.example/1.png' }
  const answer = contentEvents({
    id: 'a',
    type: 'ai',
    content: [{ type: 'tool_use', id: 'c1' }, image],
    tool_calls: [{ id: 'c1', name: 'find', args: { a: 1 } }],
  })
  t.same(
    answer.filter(one => one.event === 'content-block-finish').map(one => one.content),
    [image, { type: 'tool_call', id: 'c1', name: 'find', args: { a: 1 } }],
  )
})

t.test('tags decide which events pass and which wait for the end', async t => {
  const frame = (channel: string, namespace: string[], last = false) =>
    `: ${tagText({ channel, namespace, last })}\nid: ${channel}\nevent: x\ndata: {"a":": [1]\\n"}\n\n`
  const names = ['values', 'custom:a|b', 'custom', 'messages', 'lifecycle']
  const places = [[], ['sub:1'], ['sub:1', 'in:2'], ['subway:1']]
  for (const name of names)
    for (const place of places)
      t.same(readTag(tagText({ channel: name, namespace: place, last: false })), {
        channel: name,
        namespace: place,
        last: false,
      })
  const all = places.flatMap(place => names.map(name => ({ name, place })))
  const bytes = Buffer.from(all.map(({ name, place }) => frame(name, place)).join(''))
  const passing = (channels: string[], namespaces: string[][] | null = null, depth: number | null = null) =>
    openTagFilter({ channels, namespaces, depth }).pick(bytes).length
  t.equal(passing(['values']), 4)
  t.equal(passing(['custom']), 8, 'custom means every custom event')
  t.equal(passing(['custom:a|b']), 4)
  t.equal(passing(['nothing']), 0)
  t.equal(passing(['values'], [['sub']]), 2, 'a segment without suffix means any task of the node')
  t.equal(passing(['values'], [['sub:2']]), 0)
  t.equal(passing(['values'], [['sub']], 0), 1)
  t.equal(passing(['values'], [[]], 1), 3)
  t.equal(passing(['values'], [['sub', 'in'], []], 0), 2)
  const tags = openTagFilter({ channels: ['values', 'lifecycle'], namespaces: null, depth: null })
  const texts = (frames: Uint8Array[] | null) => frames?.map(one => Buffer.from(one).toString())
  const end = frame('lifecycle', [], true)
  t.equal(tags.pick(Buffer.from(frame('values', []) + end)).length, 1)
  t.same(texts(tags.takeLast()), [end.slice(end.indexOf('id:'))])
  t.equal(tags.takeLast(), null)
  tags.pick(Buffer.from(end))
  tags.pick(Buffer.from(frame('values', [])))
  t.equal(tags.takeLast(), null, 'what is followed by more was no end')
})

t.test('numbers of a thread: one order, in both directions', async t => {
  const run = { claim_no: 7, attempt: 3 }
  const ids = [0, 5, firstIdOf(2), firstIdOf(2) + 9, firstIdOf(3), firstIdOf(3) + 2 ** 25, firstIdOf(4)]
  const seqs = ids.map(id => seqOf(id, run))
  t.same(
    seqs,
    seqs.toSorted((a, b) => a - b),
  )
  t.equal(seqs[0], 5 * 2 ** 24)
  for (const [i, id] of ids.slice(0, 5).entries()) t.equal(idBefore(seqs[i]!, run), id)
  t.ok(idBefore(seqs[6]!, run) > firstIdOf(4), 'after its end there is nothing more')
  t.equal(idBefore(3 * 2 ** 24, run), -1, 'an earlier run')
  for (const last of [null, -1, firstIdOf(3) + 4, firstIdOf(4)]) {
    t.ok(endSeqOf(last, run) > (last === null ? -1 : last < 0 ? -1 : seqOf(last, run)))
    t.equal(stateSeqOf(last, run), endSeqOf(last, run) + 1)
    t.ok(stateSeqOf(last, run) < 8 * 2 ** 24, 'within its claim')
  }
})

t.test('a host renders both kinds with one sequence of ids, and v2 only on request', async t => {
  const host = await startHost('test/apps/basic/langgraph.json')
  t.teardown(() => host.stop())
  const kwargs = {
    input: { steps: 2 },
    stream_mode: ['values', 'checkpoints', 'tasks'] as never,
    stream_subgraphs: true,
  }
  const frames: (Pick<Batch, 'first' | 'count' | 'bytes'> & { flags: number })[] = []
  const keep = ({ id, count, body, flags }: { id: number; count: number; body: Uint8Array; flags: number }) =>
    void frames.push({ first: id, count, bytes: Uint8Array.from(body), flags })
  const { ended } = host.start({ graph_id: 'counter', events: true, kwargs }, keep)
  const { last_event_id } = await ended
  let next = 0
  for (const { first, count } of frames) {
    t.equal(first, next)
    next += count
  }
  t.equal(last_event_id, next - 1)
  const text = (flags: number) =>
    frames
      .filter(one => one.flags === flags)
      .map(one => Buffer.from(one.bytes).toString())
      .join('')
  t.match(text(1), /^: \["lifecycle",\[\]\]\nid: /)
  t.match(text(1), /: \["lifecycle",\[\],1\]\n.*\n.*\n.*"event":"completed".*\n\n$/)
  t.notMatch(text(0), /event_id/)
  frames.length = 0
  await host.start({ graph_id: 'counter', kwargs }, keep).ended
  t.ok(frames.every(one => one.flags === 0))
})

t.test('a custom chunk with a name has a channel of its own', async t => {
  const sent: [channel: string, data: unknown][] = []
  const buffer = {
    push() {},
    pushEvent: ({ channel }: { channel: string }, _method: string, params: string) =>
      void sent.push([channel, JSON.parse(params).data]),
    lastId: () => 0,
    flush() {},
  }
  const events = runEvents(buffer as unknown as Parameters<typeof runEvents>[0], 'graph')
  for (const chunk of [{ name: 'a', more: 1 }, { name: 'b', payload: 2 }, { name: 3 }, 'text', [1]])
    events.take([], 'custom', chunk, undefined as never)
  t.same(sent, [
    ['custom:a', { name: 'a', more: 1 }],
    ['custom:b', { name: 'b', payload: 2 }],
    ['custom', { payload: { name: 3 } }],
    ['custom', { payload: 'text' }],
    ['custom', { payload: [1] }],
  ])
})
