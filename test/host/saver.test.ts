import * as library from '@langchain/langgraph'
import t from 'tap'
import type { SaveHead } from '../../schemas/checkpoints.js'
import { unpack } from '../../schemas/packed.js'
import type { Durability } from '../../schemas/runs.js'
import type { SaverTransport } from '../../workers/host/port.js'
import { createSaver } from '../../workers/host/storage/saver.js'
import { nextVersion } from '../../workers/host/storage/saver-parts.js'
import { dump, revive } from '../../workers/host/storage/saver-values.js'
import { fakeStore } from './host-helper.js'

const turn = () => new Promise(resolve => setImmediate(resolve))
const meta = { source: 'loop' as const, step: 0, parents: {} }

/** A saver of a run on a fresh thread, its saves as they arrive, and control over their answers. */
function saverWith(durability: Durability, hold = false) {
  const store = fakeStore()
  const saves: SaveHead[] = []
  const answers: { resolve: () => void; reject: (error: Error) => void }[] = []
  const troubles: unknown[] = []
  const questions: string[] = []
  const transport: SaverTransport = {
    async save(_thread, body) {
      saves.push(unpack<SaveHead>(body).head)
      if (hold) await new Promise<void>((resolve, reject) => answers.push({ resolve, reject }))
      store.save('t', body)
    },
    async get() {
      questions.push('get')
      return store.newest('t')
    },
    async list() {
      questions.push('list')
      return store.newest('t')
    },
  }
  let seq = 0
  const saver = createSaver(library, {
    transport,
    durability,
    nextSeq: () => seq++,
    thread_id: 't',
    newest: new Uint8Array(0),
    metadata: { mine: 1 },
    failed: error => troubles.push(error),
  })
  const place = (checkpoint_id?: string) => ({ configurable: { thread_id: 't', checkpoint_ns: '', checkpoint_id } })
  const put = (id: string, value: unknown, parent?: string, version = `v-${id}`) =>
    saver.put(
      place(parent),
      { ...library.emptyCheckpoint(), id, channel_values: { a: value }, channel_versions: { a: version } as never },
      meta,
      { a: version } as never,
    )
  return { saver, saves, answers, troubles, questions, put, place }
}

t.test('async: one save per turn, one in flight, the rest travels in the finish', async t => {
  const { saver, saves, answers, put, place } = saverWith('async', true)
  await put('1', 'one')
  await saver.putWrites(place('1'), [['a', 'x']], 'task')
  t.equal(saves.length, 0, 'nothing before the end of the turn')
  await turn()
  t.equal(saves.length, 1)
  t.match(saves[0], {
    checkpoints: [{ id: '1', seq: 0, parent: null }],
    blobs: [{ version: 'v-1' }],
    writes: [{ idx: 0 }],
  })
  await put('2', 'two', '1')
  await turn()
  t.equal(saves.length, 1, 'the first is not answered yet')
  answers[0]!.resolve()
  await turn()
  await turn()
  t.equal(saves.length, 2)
  t.match(saves[1], { checkpoints: [{ id: '2', parent: '1' }] })
  await put('3', 'three', '2')
  const rest = saver.outbox.take()
  answers[1]!.resolve()
  t.match(unpack<SaveHead>(await rest).head.checkpoints, [{ id: '3' }])
  await put('4', 'late', '3')
  await turn()
  t.equal(saves.length, 2, 'nothing leaves after the end')
})

t.test('sync waits for the answer, exit sends nothing', async t => {
  const sync = saverWith('sync', true)
  let done = false
  const put = sync.put('1', 'one').then(() => {
    done = true
  })
  await turn()
  await turn()
  t.equal(sync.saves.length, 1)
  t.notOk(done)
  sync.answers[0]!.resolve()
  await put
  const exit = saverWith('exit')
  await exit.put('1', 'one')
  await exit.saver.putWrites(exit.place('1'), [['a', 'x']], 'task')
  await turn()
  t.equal(exit.saves.length, 0)
  t.match(unpack<SaveHead>(await exit.saver.outbox.take()).head, {
    checkpoints: [{ id: '1' }],
    writes: [{ task_id: 'task' }],
  })
})

t.test('a failed save is reported once and stops the next put', async t => {
  const { put, answers, troubles, saver } = saverWith('async', true)
  await put('1', 'one')
  await turn()
  answers[0]!.reject(new Error('gone'))
  await turn()
  await t.rejects(put('2', 'two', '1'), { message: 'gone' })
  t.match(troubles, [{ message: 'gone' }])
  t.equal((await saver.outbox.take()).length, 0)
})

t.test('the run reads its own puts without a request, even before they are stored', async t => {
  const { saver, questions, put, place } = saverWith('exit')
  t.equal(await saver.getTuple(place()), undefined, 'a fresh thread')
  const value = { deep: ['a'] }
  await saver.putWrites(
    place('1'),
    [
      ['__interrupt__', [{ id: 'i' }]],
      ['b', 2],
    ],
    'task',
  )
  await put('1', value)
  const tuple = await saver.getTuple(place())
  t.equal(tuple!.checkpoint.channel_values.a, value, 'by reference')
  t.match(tuple, {
    metadata: { mine: 1, source: 'loop' },
    pendingWrites: [
      ['task', '__interrupt__'],
      ['task', 'b', 2],
    ],
  })
  tuple!.checkpoint.channel_versions.a = 'changed' as never
  t.equal((await saver.getTuple(place('1')))!.checkpoint.channel_versions.a, 'v-1', 'a copy')
  await put('2', 'two', '1')
  t.equal(saver.head(), '2')
  t.match(await saver.getTuple(place()), { parentConfig: place('1'), pendingWrites: [] })
  t.same(questions, [])
  t.equal((await saver.getTuple(place('1')))!.checkpoint.id, '2', 'an older one is asked for (this answer is a stub)')
  t.same(questions, ['get'])
})

t.test('blobs are saved for new versions only, references for all', async t => {
  const { saver, place } = saverWith('exit')
  const checkpoint = {
    ...library.emptyCheckpoint(),
    channel_values: { a: 1, b: 2 },
    channel_versions: { a: 1, b: 2, c: 3 },
  }
  await saver.put(place(), checkpoint, meta, { b: 2 })
  const { head } = unpack<SaveHead>(await saver.outbox.take())
  t.same(head.checkpoints[0]!.refs, { a: '1', b: '2' })
  t.match(head.blobs, [{ channel: 'b', version: '2' }])
  t.equal(head.blobs.length, 1)
})

t.test('a run has one thread', async t => {
  const { saver } = saverWith('exit')
  const other = { configurable: { thread_id: 'other', checkpoint_ns: '' } }
  await t.rejects(saver.put(other, library.emptyCheckpoint(), meta, {}), /cannot use the checkpoints of thread other/)
  await t.rejects(saver.deleteThread('t'), /cannot delete its own thread/)
})

t.test('versions are ordered and unique', async t => {
  let last = nextVersion(undefined)
  for (let i = 0; i < 2000; i++) {
    const next = nextVersion(last)
    if (next.localeCompare(last) <= 0) t.fail(`${next} is not greater than ${last}`)
    last = next
  }
  t.match(last, /^0000002001\.[0-9a-z]{10}$/)
  t.match(nextVersion(7), /^0000000008\./)
  t.not(nextVersion(last), nextVersion(last))
})

t.test('plain values take the short path, others the library’s serialiser', async t => {
  const { saver } = saverWith('exit')
  const plain = { a: [1, 'b', null, { c: true }] }
  t.notOk(dump(saver.serde, plain) instanceof Promise)
  t.same(revive(saver.serde, 'json', (dump(saver.serde, plain) as [string, Uint8Array])[1]), plain)
  for (const value of [
    new Map([['a', 1]]),
    new Set([1]),
    undefined,
    [undefined],
    new Uint8Array([1, 2]),
    { m: new Map() },
  ]) {
    const [type, bytes] = await dump(saver.serde, value)
    t.same(await revive(saver.serde, type, bytes), value)
  }
  for (const value of [() => 1, Symbol('s')]) {
    const [type, bytes] = await dump(saver.serde, value)
    t.equal(await revive(saver.serde, type, bytes), undefined, 'JSON has nothing for it')
  }
})
