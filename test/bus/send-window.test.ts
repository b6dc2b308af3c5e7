/** The bytes that all runs of a process may have on their way (bus/send-window.ts). */
import t from 'tap'
import { openSendWindow } from '../../bus/send-window.js'

t.test('runs take turns, and each may always have one message on its way', async t => {
  const window = openSendWindow(100)
  const sent: string[] = []
  const queues = new Map([
    ['a', 6],
    ['b', 6],
    ['c', 1],
  ])
  const own = new Map<string, number>()
  const advance = new Map<string, () => void>()
  for (const name of queues.keys())
    advance.set(name, () => {
      while (queues.get(name)! > 0) {
        if ((own.get(name) ?? 0) > 0 && window.isFull()) return window.wait(advance.get(name)!)
        queues.set(name, queues.get(name)! - 1)
        own.set(name, (own.get(name) ?? 0) + 1)
        sent.push(name)
        window.add(50)
      }
    })
  for (const go of advance.values()) go()
  t.same(sent, ['a', 'a', 'b', 'c'], 'the window is full after two; the others send one each')
  const confirm = (name: string) => {
    own.set(name, own.get(name)! - 1)
    window.add(-50)
  }
  confirm('a')
  t.same(sent.slice(4), [], 'there is no room yet')
  confirm('c')
  confirm('b')
  t.same(sent.slice(4), ['a'], 'the one that has waited longest')
  confirm('a')
  confirm('a')
  t.same(sent.slice(5), ['b', 'a'], 'then the next one')
  for (let n = 0; n < 20; n++) {
    const [name] = [...own].find(([, n]) => n > 0) ?? []
    if (name !== undefined) confirm(name)
  }
  t.same([...queues.values()], [0, 0, 0], 'all of it is sent')
  t.notOk(window.isFull())
})
