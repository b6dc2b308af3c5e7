/** The decorator of the store, with handlers that reverse bytes and count the questions. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { CipherValue, EncryptCall } from '../../../schemas/app-host.js'
import { fail } from '../../../schemas/errors.js'
import { cutter, pack, unpack } from '../../../schemas/packed.js'
import { openSqlite } from '../../../store/sqlite.js'
import type { Step } from '../../../store/steps.js'
import { serving } from '../../../workers/resources/encryption/context.js'
import { openEncryption } from '../../../workers/resources/encryption/store.js'
import type { AppHandlers } from '../../../workers/resources/rows/app-settings.js'
import { rowsOf } from '../../../workers/resources/rows/checkpoint.js'
import { newThread } from '../../../workers/resources/rows/thread.js'

const folder = mkdtempSync(join(tmpdir(), 'weft-encryption-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
const inner = await openSqlite({ folder })
t.teardown(() => inner.close())

const asked: CipherValue[][] = []
let isDown = false
let handlers: AppHandlers | null = { json: true, blob: true, context: false, pool: 'p' }
const reversed = (value: unknown) => [...JSON.stringify(value)].reverse().join('')
const deps = {
  own: { encrypts: false },
  apps: { poolFor: async () => 'p' },
  settings: { of: async (_kind: string, app: string) => (app === 'secret' && handlers !== null ? [handlers] : []) },
  caller: {
    async ask(_subject: string, _head: unknown, body: Uint8Array) {
      if (isDown) throw fail('unavailable', 'no graph worker')
      const { head, rest } = unpack<EncryptCall>(body)
      const cut = cutter(rest)
      asked.push(head.values)
      const results = head.values.map(({ op, kind, size }) => {
        const bytes = cut(size)
        if (kind === 'blob') return Uint8Array.from(bytes).reverse()
        const object = JSON.parse(Buffer.from(bytes).toString()) as { [name: string]: unknown }
        const one = (value: unknown) =>
          op === 'encrypt' ? reversed(value) : JSON.parse([...(value as string)].reverse().join(''))
        const all = Object.entries(object).map(([name, value]) => [name, name === 'owner' ? value : one(value)])
        return Buffer.from(JSON.stringify(Object.fromEntries(all)))
      })
      return { body: pack({ sizes: results.map(({ length }) => length) }, results) }
    },
  },
} as never

const encryption = await openEncryption(inner)
encryption.use(deps)
const { store } = encryption
const thread = (app: string, thread_id: string, metadata: string): Step => ({
  step: 'threads.insert',
  row: newThread({ app, thread_id, metadata }),
  keys: [],
})
const plain = async (id: string) => (await inner.threads.get(null, id))!.metadata

t.test('while no application has handlers, nothing is asked', async t => {
  t.equal(await store.apply([thread('secret', 'before', '{"a":1}')]), -1)
  t.equal(await plain('before'), '{"a":1}')
  t.same(asked, [])
  await encryption.turnOn()
  t.ok((await openEncryption(inner)).isOn(), 'the next worker on the store knows')
})

t.test('one question for a write, and one for a read of many rows', async t => {
  const steps = [thread('secret', 'one', '{"a":"x","owner":"ann"}'), thread('secret', 'two', '{"b":2}')]
  t.equal(await store.apply([...steps, thread('open', 'three', '{"c":3}')]), -1)
  t.equal(asked.length, 1)
  t.notMatch(await plain('one'), /"a":"x"/)
  t.match(await plain('one'), /"owner":"ann"/)
  t.equal(await plain('three'), '{"c":3}', 'another application')
  asked.length = 0
  const query = { sort: 'thread_id', order: 'asc', limit: 10 } as const
  const { rows } = await store.threads.list({ app: 'secret', ...query })
  t.same(
    rows.map(({ metadata }) => JSON.parse(metadata)),
    [{ a: 1 }, { a: 'x', owner: 'ann' }, { b: 2 }],
    'rows from before are read as they are',
  )
  t.equal(asked.length, 1)
})

t.test('keys of searches are those of the encrypted metadata', async t => {
  const found = async (key: string) =>
    (await store.threads.list({ app: 'secret', keys: [key], sort: 'thread_id', order: 'asc', limit: 10 })).rows.length
  const row = (await inner.threads.list({ app: 'secret', sort: 'thread_id', order: 'asc', limit: 10 })).rows
  t.ok(row.length > 0)
  const { keysOf } = await import('../../../schemas/contains.js')
  t.equal(await found(keysOf({ owner: 'ann' })[0]!), 1)
  t.equal(await found(keysOf({ a: 'x' })[0]!), 0)
})

t.test('the context of a request is stored, and that of the row without one', async t => {
  const header = Buffer.from('{"tenant":"acme"}').toString('base64')
  await serving({ request_id: 'r', encryption: header }, () => store.apply([thread('secret', 'four', '{"d":4}')]))
  asked.length = 0
  await store.apply([{ step: 'threads.patch', thread_id: 'four', where: {}, set: { metadata: '{"d":5}' }, keys: [] }])
  t.match(asked, [[{ op: 'encrypt', model: 'thread', field: 'metadata', context: { tenant: 'acme' } }]])
  const another = await openEncryption(inner)
  another.use(deps)
  asked.length = 0
  const state = { latest_checkpoint_id: null, values: Buffer.from('{"v":1}'), rest: Buffer.from('"next":[]}') }
  await another.store.apply([{ step: 'threads.state', thread_id: 'four', ...state }])
  t.match(asked, [[{ context: { tenant: 'acme' } }, { context: { tenant: 'acme' } }]], 'also by another worker')
  const read = (await another.store.threads.state('four'))!
  t.equal(Buffer.from(read.values!).toString(), '{"v":1}')
  t.equal(Buffer.from(read.rest!).toString(), '"next":[]}')
  t.same((await inner.threads.state('four'))!.values![0], 1)
})

t.test(
  'a row that a step makes is known to the steps behind it, and one that does not exist receives nothing',
  async t => {
    const patch = (thread_id: string): Step => {
      return { step: 'threads.patch', thread_id, where: {}, set: { error: '{"message":"plain"}' } }
    }
    t.equal(await store.apply([thread('secret', 'six', '{}'), patch('six')]), -1)
    t.notMatch((await inner.threads.get(null, 'six'))!.error, /plain/)
    t.match((await store.threads.get(null, 'six'))!.error, /plain/)
    t.equal(await store.apply([thread('open', 'seven', '{}'), patch('seven')]), -1)
    t.match((await inner.threads.get(null, 'seven'))!.error, /plain/, 'also of an application without handlers')
    const state = { latest_checkpoint_id: null, values: Buffer.from('{"v":"plain"}'), rest: null }
    await store.apply([{ step: 'threads.state', thread_id: 'none', ...state }])
    t.notMatch(Buffer.from((await inner.threads.state('none'))?.values ?? '').toString(), /plain/)
  },
)

t.test('steps of checkpoints keep the sizes of what is stored', async t => {
  const value = Buffer.from('a value')
  const blob = { ns: '', channel: 'c', version: '1', type: 'bytes', size: value.length, value }
  const step = { step: 'checkpoints.insert', thread_id: 'four', run_id: null, attempt: 0 } as const
  await store.apply([{ ...step, checkpoints: [], blobs: [blob], writes: [] }])
  t.equal(blob.type, 'bytes', 'the row of the caller is not changed')
  const page = { thread_id: 'four', after: null, limit: 10, bytes: 1_000_000 }
  const [raw] = await inner.checkpoints.blobs(page)
  t.match(raw, { type: 'sealed:bytes', size: raw!.value.length })
  const [read] = await store.checkpoints.blobs(page)
  t.match(read, { type: 'bytes', size: value.length })
  t.equal(Buffer.from(read!.value).toString(), 'a value')
  t.match(await store.checkpoints.blobs({ ...page, bare: true }), [{ type: 'bytes' }])
})

t.test(
  'an encrypted value of one application is not stored in a row of another, which would have it decrypted',
  async t => {
    const stolen = (await inner.threads.get(null, 'one'))!
    t.match(stolen.metadata, /^\u0001/, 'as a backup or a reader of the database has it')
    const patch = (set: object): Step => ({ step: 'threads.patch', thread_id: 'three', where: {}, set })
    const values = Buffer.concat([Buffer.from([1]), pack({ app: 'secret', kind: 'json' }, [Buffer.from('x')])])
    for (const step of [
      patch({ metadata: stolen.metadata }),
      patch({ interrupts: stolen.metadata }),
      thread('open', 'planted', stolen.metadata),
      {
        step: 'threads.state',
        thread_id: 'three',
        latest_checkpoint_id: null,
        values,
        rest: Buffer.from('{}'),
      } as Step,
      {
        step: 'threads.state',
        thread_id: 'three',
        latest_checkpoint_id: null,
        values: Buffer.from([1, 2]),
        rest: Buffer.from('{}'),
      } as Step,
    ])
      await t.rejects(store.apply([step]), { code: 'bad_request' })
    t.equal(await plain('three'), '{"c":3}')
    // The text of a row that was planted before the application had handlers.
    await inner.apply([thread('open', 'old', stolen.metadata)])
    await t.rejects(store.threads.get('open', 'old'), { code: 'internal' })
    await inner.apply([{ step: 'threads.remove', thread_id: 'old' } as Step])
    const save = {
      checkpoints: [],
      writes: [],
      blobs: [{ ns: '', channel: 'c', version: '1', type: 'sealed:json', size: 1 }],
    }
    t.throws(() => rowsOf(pack(save, [Buffer.from('x')])), { code: 'bad_request' })
  },
)

t.test('without handlers nothing is written and nothing is shown', async t => {
  isDown = true
  await t.rejects(store.apply([thread('secret', 'five', '{"e":5}')]), { code: 'unavailable' })
  t.equal(await inner.threads.get(null, 'five'), null)
  await t.rejects(store.threads.get('secret', 'one'), { code: 'unavailable' })
  t.equal((await store.threads.get('open', 'three'))!.metadata, '{"c":3}', 'others are served')
  const [swept] = await store.threads.busy(Number.MAX_SAFE_INTEGER, 10)
  t.equal(swept, undefined, 'no thread is busy')
  const set = { interrupts: (await inner.threads.get(null, 'one'))!.interrupts }
  await store.apply([{ step: 'threads.patch', thread_id: 'one', where: {}, set }])
  t.equal(
    (await inner.threads.get(null, 'one'))!.interrupts,
    set.interrupts,
    'what is encrypted is not encrypted again',
  )
  isDown = false
  handlers = null
  await t.rejects(store.threads.get('secret', 'one'), /has no `encryption`/)
})
