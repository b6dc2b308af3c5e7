/** A graph writes to the descriptor of the pipe to its supervisor: its host ends, the supervisor and its runs go on. */
import t from 'tap'
import { FROM_HOST, frameBytes } from '../../workers/pipe.js'
import { type Started, startWorkers, within } from './worker-helper.js'

t.setTimeout(120_000)
// The supervisor is in this process: an uncaught error ends the test.
const weft = await startWorkers()
t.teardown(() => weft.stop())

const bytesOf: { readonly [name: string]: Uint8Array } = {
  'a log line': Buffer.from('a line of a library that found descriptor 3 open\n'),
  'a hello that is not JSON': frameBytes({ kind: FROM_HOST.hello, body: Buffer.from('not json') }),
  'a hello of another shape': frameBytes({ kind: FROM_HOST.hello, body: Buffer.from('{"graphs":7}') }),
}

for (const [name, bytes] of Object.entries(bytesOf))
  t.test(`${name}: its run ends after three attempts, others succeed`, async t => {
    const others: Started[] = []
    for (let n = 0; n < 5; n++) others.push(await weft.run('steps', { steps: 20 }))
    const hex = Buffer.from(bytes).toString('hex')
    const bad = await weft.run('poison', { steps: 2, at: 1, harm: 'pipe', ms: 1_000, bytes: hex })
    t.match(await within(60_000, bad.ended), {
      status: 'error',
      error: { error: 'MalformedFrame', message: /3 attempts: the graph host sent a malformed frame/ },
    })
    for (const run of others) t.match(await within(30_000, run.ended), { status: 'success' })
  })
