import { getHeapSpaceStatistics } from 'node:v8'
import t from 'tap'
import { TransientMap, TransientSet } from '../../schemas/transient.js'
import { randomOf } from '../faults/harness/random.js'
import { collectGarbage } from '../helpers/garbage.js'

const SEED = 20_261_126

t.test(`a map and a set behave as those of the language, seed ${SEED}`, async t => {
  const random = randomOf(SEED)
  const [map, set] = [new TransientMap<number, number>(), new TransientSet<number>()]
  const [plainMap, plainSet] = [new Map<number, number>(), new Set<number>()]
  for (let round = 0; round < 20_000; round++) {
    const key = random.between(0, round < 10_000 ? 40 : 3_000)
    if (random.next() < 0.5) {
      map.set(key, round)
      plainMap.set(key, round)
      set.add(key)
      plainSet.add(key)
    } else if (map.delete(key) !== plainMap.delete(key) || set.delete(key) !== plainSet.delete(key))
      t.fail(`round ${round}`)
    if (map.get(key) !== plainMap.get(key) || map.has(key) !== plainMap.has(key) || set.has(key) !== plainSet.has(key))
      t.fail(`round ${round}`)
    if (round % 500 === 0) {
      t.same([...map], [...plainMap], 'entries in the order of their insertion')
      t.same([[...map.keys()], [...map.values()]], [[...plainMap.keys()], [...plainMap.values()]])
      t.same([[...set], [...set.values()], set.size], [[...plainSet], [...plainSet], plainSet.size])
    }
  }
  map.clear()
  set.clear()
  t.same([[...map], map.size, [...set], set.size], [[], 0, [], 0])
})

t.test('entries may leave while all are visited', async t => {
  const map = new TransientMap<number, string>()
  for (let n = 0; n < 1_000; n++) map.set(n, `${n}`)
  const seen: number[] = []
  for (const [n] of map) {
    seen.push(n)
    map.delete(n)
    map.delete(n + 1)
  }
  t.same(
    seen,
    Array.from({ length: 500 }, (_, i) => 2 * i),
  )
  t.equal(map.size, 0)
})

t.test('what has left is no longer in memory', async t => {
  const LIVE = 64
  const BYTES = 1_000
  const ENTRIES = 20_000
  const old = () => getHeapSpaceStatistics().find(({ space_name }) => space_name === 'old_space')!.space_used_size
  const entry = (n: number) => Array.from({ length: BYTES / 8 }, (_, i) => n + i + 0.5)
  const map = new TransientMap<number, number[]>()
  const set = new TransientSet<number[]>()
  const sets: number[][] = []
  for (let n = 0; n < LIVE; n++) map.set(n, entry(n))
  // The tables are in the old generation from now on.
  collectGarbage()
  const before = old()
  for (let n = LIVE; n < ENTRIES; n++) {
    map.delete(n - LIVE)
    map.set(n, entry(n))
    const one = entry(n)
    set.add(one)
    sets.push(one)
    if (sets.length > LIVE) set.delete(sets.shift()!)
  }
  t.ok(old() - before < (2 * ENTRIES * BYTES) / 4, `the old generation grew by ${old() - before} bytes`)
})
