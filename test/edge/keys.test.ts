/** The edge verifies keys against the digests of a resource worker, and remembers them for a while. */
import { createHash } from 'node:crypto'
import t from 'tap'
import type { Caller } from '../../bus/call.js'
import type { Link } from '../../bus/connect.js'
import { openLog } from '../../bus/log.js'
import { openKeys } from '../../edge/keys.js'
import type { KeyRecord } from '../../schemas/auth/keys.js'
import { fail } from '../../schemas/errors.js'

const NO_LIMITS = { requests_per_second: null, running_runs: null, open_streams: null }
const textOf = (n: number) => `weft_${n.toString(16).padStart(16, '0')}_${'A'.repeat(43)}`

/** Keys on a resource worker that the test plays. */
function stage() {
  const rows = new Map<string, KeyRecord>()
  let asked = 0
  let broken = false
  let onChange = () => {}
  const caller = {
    async ask(_subject: string, _head: object, body: Uint8Array) {
      asked++
      if (broken) throw fail('unavailable')
      const { id } = JSON.parse(Buffer.from(body).toString()) as { id: string }
      return { head: { status: 200 }, body: Buffer.from(JSON.stringify(rows.get(id) ?? null)) }
    },
  } as unknown as Caller
  const link = {
    log: openLog('test', 'silent'),
    subscribe(_: string, onMessage: () => void) {
      onChange = onMessage
      return { unsubscribe() {} }
    },
  } as unknown as Link
  const keys = openKeys(link, caller)
  return {
    keys,
    asked: () => asked,
    add(n: number, more: Partial<KeyRecord> = {}) {
      const text = textOf(n)
      const sha256 = createHash('sha256').update(text).digest('hex')
      const id = text.slice(5, 21)
      rows.set(id, { id, name: `key ${n}`, scopes: ['read'], limits: NO_LIMITS, expires_at: null, sha256, ...more })
      return text
    },
    revoke: (n: number) => void rows.delete(textOf(n).slice(5, 21)),
    changed: () => onChange(),
    break: (on: boolean) => {
      broken = on
    },
  }
}

t.test('a known key is verified without a question, a wrong secret never passes', async t => {
  const { keys, add, asked } = stage()
  t.teardown(() => keys.close())
  const text = add(1)
  const [first, second] = await Promise.all([keys.find(text, 'x'), keys.find(text, 'x')])
  t.equal(first?.record.name, 'key 1')
  t.equal(second, first)
  t.equal(asked(), 1, 'two requests at once ask once')
  t.equal(keys.find(text, 'x'), first, 'at once from now on')
  t.equal(keys.find(`${text.slice(0, -1)}B`, 'x'), null)
  for (const no of ['', 'x', text.slice(1), `${text}A`, text.toUpperCase()]) t.equal(keys.find(no, 'x'), null, no)
  t.equal(asked(), 1)
})

t.test('an unknown key is asked for once, until keys change', async t => {
  const { keys, add, asked, changed } = stage()
  t.teardown(() => keys.close())
  t.equal(await keys.find(textOf(2), 'x'), null)
  t.equal(keys.find(textOf(2), 'x'), null)
  t.equal(asked(), 1)
  const text = add(2)
  changed()
  t.equal((await keys.find(text, 'x'))?.record.name, 'key 2')
})

t.test('an expired key opens nothing, although it is remembered', async t => {
  const { keys, add } = stage()
  t.teardown(() => keys.close())
  t.equal(await keys.find(add(3, { expires_at: Date.now() - 1 }), 'x'), null)
  const expires_at = Date.now() + 50
  const text = add(4, { expires_at })
  t.ok(await keys.find(text, 'x'))
  while (Date.now() <= expires_at) await new Promise(done => setTimeout(done, 5))
  t.equal(await keys.find(text, 'x'), null)
})

t.test('a change ends the streams of a key that is gone, and of no other', async t => {
  const { keys, add, revoke, changed } = stage()
  t.teardown(() => keys.close())
  const [gone, kept] = [await keys.find(add(5), 'x'), await keys.find(add(6), 'x')]
  const ended: string[] = []
  const release = gone!.openStream(() => ended.push('released'))!
  release()
  const over = new Promise<void>(resolve => gone!.openStream(() => resolve()))
  kept!.openStream(() => ended.push('kept'))
  revoke(5)
  changed()
  await over
  t.same(ended, [])
  t.equal(await keys.find(textOf(5), 'x'), null)
})

t.test('while no worker answers, a key that is not remembered is neither right nor wrong', async t => {
  const { keys, add, break: breakIt } = stage()
  t.teardown(() => keys.close())
  const text = add(7)
  breakIt(true)
  await t.rejects(Promise.resolve(keys.find(text, 'x')), { code: 'unavailable' })
  breakIt(false)
  t.ok(await keys.find(text, 'x'))
})

t.test('a ticket stands for its key in requests of one application, for an hour', async t => {
  const { keys, add, revoke, changed } = stage()
  t.teardown(() => keys.close())
  const key = (await keys.find(add(9), 'x'))!
  const other = (await keys.find(add(10), 'x'))!
  const text = keys.ticketOf(key, 'one')
  t.notOk(text.includes('A'.repeat(43)), 'the secret is not in it')
  t.equal(keys.redeem({ text, app: 'one' }, 'x'), key)
  t.equal(keys.find(text, 'x'), null, 'it is no key')
  const [id, at, signature] = text.split('.') as [string, string, string]
  for (const wrong of [
    `${other.record.id}.${at}.${signature}`,
    `${id}.${(Number.parseInt(at, 36) + 1).toString(36)}.${signature}`,
    `${id}.${at}.${signature.slice(0, -1)}${signature.endsWith('A') ? 'E' : 'A'}`,
    `${id}.${at}`,
    'nobody',
    '',
  ])
    t.equal(await keys.redeem({ text: wrong, app: 'one' }, 'x'), null, wrong)
  t.equal(await keys.redeem({ text, app: 'two' }, 'x'), null, 'of another application')
  const { now } = Date
  t.teardown(() => Object.assign(Date, { now }))
  Object.assign(Date, { now: () => now() + 3_500_000 })
  t.equal(await keys.redeem({ text, app: 'one' }, 'x'), key)
  Object.assign(Date, { now: () => now() + 3_700_000 })
  t.equal(await keys.redeem({ text, app: 'one' }, 'x'), null, 'an old one')
  Object.assign(Date, { now })
  revoke(9)
  changed()
  t.equal(await keys.redeem({ text, app: 'one' }, 'x'), null, 'of a revoked key')
})

t.test('limits', async t => {
  const { keys, add } = stage()
  t.teardown(() => keys.close())
  const key = (await keys.find(
    add(8, { limits: { requests_per_second: 0.001, running_runs: null, open_streams: 2 } }),
    'x',
  ))!
  t.equal(key.take(), 0)
  const wait = key.take()
  t.ok(wait > 900 && wait <= 1_000, `${wait} s`)
  const first = key.openStream(() => {})
  t.ok(key.openStream(() => {}))
  t.equal(
    key.openStream(() => {}),
    null,
  )
  first!()
  first!()
  t.ok(key.openStream(() => {}))
  t.equal(
    key.openStream(() => {}),
    null,
    'a place is given back once',
  )
})
