import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { openAdmission } from '../../../workers/host/guards/admission.js'
import { TO_HOST } from '../../../workers/pipe.js'

const start = (slot: number) => ({
  kind: TO_HOST.start,
  flags: 0,
  slot,
  id: 0,
  count: 0,
  body: new Uint8Array(),
})

t.test('many items start over several turns, in order, each once', async t => {
  const began: number[] = []
  const admission = openAdmission(({ slot }) => began.push(slot))
  for (let slot = 1; slot <= 20; slot++) admission.add(start(slot))
  t.same(began, [], 'none before the turn ends')
  await turn()
  t.ok(began.length > 0 && began.length < 20, `${began.length} in the first turn`)
  admission.expedite(20)
  t.equal(began.at(-1), 20, 'one of which something is asked begins now')
  admission.expedite(20)
  admission.expedite(99)
  for (let i = 0; i < 20; i++) await turn()
  t.same(
    began.filter(slot => slot !== 20),
    Array.from({ length: 19 }, (_, i) => i + 1),
  )
  t.equal(began.length, 20)
  admission.add(start(21))
  await turn()
  t.equal(began.at(-1), 21, 'later ones begin, too')
})
