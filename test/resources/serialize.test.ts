import { AsyncLocalStorage } from 'node:async_hooks'
import t from 'tap'
import { v7 } from 'uuid'
import { fail, StoreOutage } from '../../schemas/errors.js'
import { BUILT_IN_APP } from '../../schemas/ids.js'
import type { Store } from '../../store/port.js'
import { create } from '../../workers/resources/runs/create.js'
import { type Serialize, serializer } from '../../workers/resources/serialize.js'
import { stage } from './stage.js'

/** Work that ends when the test says so. */
function openWork(serialize: Serialize) {
  const begun: string[] = []
  const settled: string[] = []
  return {
    begun,
    settled,
    add(name: string, key = 'thread', patience?: number) {
      let end = (_?: Error) => {}
      const held = new Promise<void>((done, failed) => {
        end = error => (error === undefined ? done() : failed(error))
      })
      const work = () => {
        begun.push(name)
        return held
      }
      const answer = serialize(key, work, patience).then(
        () => void settled.push(`${name} done`),
        error => void settled.push(`${name} ${error.message}`),
      )
      return { end, answer }
    },
  }
}

t.test('work with one key is done in order, with other keys at the same time', async t => {
  const { begun, settled, add } = openWork(serializer())
  const [a, b, c] = [add('a'), add('b'), add('c', 'other')]
  t.same(begun, ['a', 'c'])
  c.end()
  await c.answer
  a.end(fail('conflict', 'no'))
  await a.answer
  b.end()
  await b.answer
  t.same(begun, ['a', 'c', 'b'])
  t.same(settled, ['c done', 'a no', 'b done'], 'an error of its own is nobody else’s')
})

t.test('what waits behind work that the database failed is refused with it, and never begins', async t => {
  const { begun, settled, add } = openWork(serializer())
  const all = ['a', 'b', 'c'].map(name => add(name))
  const other = add('d', 'other')
  all[0]!.end(new StoreOutage('locked'))
  await Promise.all(all.map(({ answer }) => answer))
  t.same([...settled].sort(), ['a locked', 'b locked', 'c locked'])
  const later = add('e')
  later.end()
  other.end()
  await Promise.all([later.answer, other.answer])
  t.same(begun, ['a', 'd', 'e'])
  t.same(settled.slice(3).sort(), ['d done', 'e done'])
})

t.test('another kind of unavailable refuses its own caller only', async t => {
  const { settled, add } = openWork(serializer())
  const [a, b] = [add('a'), add('b')]
  a.end(fail('unavailable', 'no host'))
  b.end()
  await Promise.all([a.answer, b.answer])
  t.same(settled, ['a no host', 'b done'])
})

t.test('work that waits for too long is refused while the work before it goes on', async t => {
  // The sweep alone keeps no process alive.
  const alive = setInterval(() => {}, 1_000)
  t.teardown(() => clearInterval(alive))
  const { begun, settled, add } = openWork(serializer())
  const [a, b, c] = [add('a'), add('b', 'thread', 10_000), add('c', 'thread', 1)]
  await c.answer
  t.match(settled, [/^c An earlier request/])
  a.end()
  b.end()
  await Promise.all([a.answer, b.answer])
  t.same(begun, ['a', 'b'])
})

t.test('work has the context of its caller, not that of the work before it', async t => {
  const serialize = serializer()
  const storage = new AsyncLocalStorage<string>()
  const seen = await Promise.all(
    ['a', 'b', 'c'].map(name => storage.run(name, () => serialize('thread', async () => storage.getStore()))),
  )
  t.same(seen, ['a', 'b', 'c'])
})

/** A store whose writes wait while it is locked, and fail together as those of a locked database do. */
function lockable() {
  let waiting: ((error: Error) => void)[] | null = null
  let writes = 0
  const wrap = (store: Store): Store => ({
    ...store,
    apply(steps) {
      if (waiting === null) return store.apply(steps)
      writes++
      return new Promise((_, refuse) => waiting!.push(refuse))
    },
  })
  return {
    wrap,
    writes: () => writes,
    lock() {
      waiting = []
    },
    fail() {
      for (const refuse of waiting!.splice(0)) refuse(new StoreOutage('locked'))
    },
    unlock() {
      waiting = null
    },
  }
}

t.test('creates for one thread are refused together when the database is locked', async t => {
  const { wrap, writes, lock, fail, unlock } = lockable()
  const { store, all } = await stage(t, 1, wrap)
  const thread_id = v7()
  const run_ids = Array.from({ length: 20 }, () => v7())
  const createOne = (run_id: string) =>
    create(
      all[0]!,
      { assistant_id: 'g', if_not_exists: 'create' },
      { app: BUILT_IN_APP, run_id, thread_id, mode: 'background', brings: null },
    )
  lock()
  const answers = run_ids.map(createOne)
  const codes = Promise.all(
    answers.map(answer =>
      answer.then(
        () => 'accepted',
        error => error.code,
      ),
    ),
  )
  while (writes() === 0) await new Promise(setImmediate)
  fail()
  t.same([...new Set(await codes)], ['unavailable'])
  t.equal(writes(), 1, 'one call found out for all')
  unlock()
  await createOne(v7())
  t.same(await store.runs.summary(run_ids), [], 'nothing that was refused is accepted later')
})
