import { headers, type Msg } from 'nats'
import t from 'tap'
import { type Batch, openAssemblers } from '../../bus/assembler.js'

const MB = 1024 * 1024
const message = (first: number, part: string, data: Uint8Array): Msg => {
  const head = headers()
  head.set('first', `${first}`)
  head.set('count', '1')
  head.set('part', part)
  return { headers: head, data } as unknown as Msg
}

t.test('an event is whole with its last part', async t => {
  const batches: Batch[] = []
  const { onMessage } = openAssemblers()(batch => batches.push(batch))
  for (const [part, text] of [
    ['0/2', 'a'],
    ['1/3', 'x'],
    ['1/2', 'b'],
  ] as const)
    onMessage(message(7, part, Buffer.from(text)))
  t.match(batches, [{ first: 7, count: 1, bytes: Buffer.from('ab') }])
})

t.test('parts without end are forgotten', async t => {
  const batches: Batch[] = []
  const open = openAssemblers()
  const { onMessage } = open(batch => batches.push(batch))
  const data = Buffer.alloc(MB)
  for (let i = 0; i < 100; i++) onMessage(message(0, `${i}/100`, data))
  t.same(batches, [], 'it is larger than any event')
  onMessage(message(1, '0/1', Buffer.from('next')))
  t.equal(batches.length, 1)
})

t.test('beyond the limit of all readers the largest unfinished event is forgotten', async t => {
  const open = openAssemblers(10 * MB)
  const ended: string[] = []
  const [large, small, closed] = ['large', 'small', 'closed'].map(name => open(() => ended.push(name)))
  const data = Buffer.alloc(MB)
  for (let i = 0; i < 3; i++) closed!.onMessage(message(0, `${i}/4`, data))
  closed!.close()
  for (let i = 0; i < 7; i++) large!.onMessage(message(0, `${i}/9`, data))
  for (let i = 0; i < 4; i++) small!.onMessage(message(0, `${i}/4`, data))
  for (let i = 7; i < 9; i++) large!.onMessage(message(0, `${i}/9`, data))
  t.same(ended, ['small'])
})
