/** The promises of every store about values: hostile ones and large ones come back byte for byte (store/port.ts). */
import fc from 'fast-check'
import type { Test } from 'tap'
import type { Store } from '../../store/port.js'
import { APP, blob, bytes, checkpoint, save } from './conformance-rows.js'
import { writer } from './conformance-writer.js'

export function valueConformance(t: Test, store: Store, count: number): void {
  const { done, newThread, newRun } = writer(store)

  t.test(`${count} hostile JSON values come back byte for byte`, async t => {
    const seed = 20_261_121
    t.comment(`fast-check seed ${seed}`)
    const key = fc.oneof(
      fc.constantFrom(
        '__proto__',
        'constructor',
        'toString',
        '$where',
        '$set',
        'a.b',
        '.',
        '',
        '\u0000',
        '\ud800',
        '"',
      ),
      fc.string({ unit: 'binary', maxLength: 6 }),
    )
    const value = fc.letrec(tie => ({
      any: fc.oneof(
        { depthSize: 'small', withCrossShrink: true },
        fc.constantFrom('\u0000', '\udfff\ud800', '$ne', '', 2 ** 53, -0, 1e-300, null, true),
        fc.string({ unit: 'binary', maxLength: 12 }),
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        fc.array(tie('any'), { maxLength: 4 }),
        fc.array(fc.tuple(key, tie('any')), { maxLength: 4 }).map(Object.fromEntries),
      ),
    })).any
    const samples = fc.sample(value, { seed, numRuns: count - 10 }).map(sample => JSON.stringify(sample))
    const deep = Array.from({ length: 10 }, (_, i) => '{"a.b":['.repeat(100 * i) + ']}'.repeat(100 * i) || 'null')
    const all = [...samples, ...deep]
    t.equal(all.length, count)

    let wrong = 0
    const check = async (text: string) => {
      const { thread_id } = await newThread({ metadata: text, config: text, interrupts: text, error: text })
      const { run_id } = await newRun(thread_id, { metadata: text, kwargs: text, error: text, result: bytes(text) })
      await done({
        step: 'threads.state',
        thread_id,
        latest_checkpoint_id: null,
        values: bytes(text),
        rest: bytes(text),
      })
      const [row, state, made] = await Promise.all([
        store.threads.get(APP, thread_id),
        store.threads.state(thread_id),
        store.runs.get(run_id),
      ])
      const stored = [
        row?.metadata,
        row?.config,
        row?.interrupts,
        row?.error,
        made?.metadata,
        made?.kwargs,
        made?.error,
      ]
      const raw = [state?.values, state?.rest, made?.result].map(value => value && Buffer.from(value).toString())
      if ([...stored, ...raw].some(found => found !== text) && ++wrong < 4)
        t.fail('another text', { text, stored, raw })
      await done({ step: 'threads.remove', thread_id })
    }
    for (let at = 0; at < all.length; at += 250) await Promise.all(all.slice(at, at + 250).map(check))
    t.equal(wrong, 0)
  })

  t.test('values of 17 MB', async t => {
    const size = 17 * 2 ** 20
    const large = Buffer.alloc(size, 'weft')
    // A view in the middle of a larger buffer: what a caller cuts out of a message.
    const part = Buffer.concat([Buffer.from('head'), large, Buffer.from('tail')]).subarray(4, 4 + size)
    const { thread_id } = await newThread({ latest_checkpoint_id: 'c' })
    const kwargs = JSON.stringify({ input: 'é'.repeat(size / 2) })
    const { run_id } = await newRun(thread_id, { kwargs, result: part })
    await done({ step: 'threads.state', thread_id, latest_checkpoint_id: 'c', values: part, rest: null })
    const row = checkpoint('c', 1, { value: part, refs: { m: '1' } })
    await done(save(thread_id, { checkpoints: [row], blobs: [blob('m', '1', part)] }))
    t.equal(part.length, size, 'the caller keeps its bytes')
    const made = await store.runs.get(run_id)
    t.ok(made?.kwargs === kwargs)
    t.ok(large.equals(made!.result!))
    t.ok(large.equals((await store.threads.state(thread_id))!.values!))
    const tuple = await store.checkpoints.get({ thread_id })
    t.ok(large.equals(tuple!.value))
    t.ok(large.equals(tuple!.blobs[0]!.value))
    await done({ step: 'threads.remove', thread_id })
  })
}
