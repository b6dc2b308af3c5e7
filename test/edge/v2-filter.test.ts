/** The end of a run, for a subscription of protocol v2, where no event of the host says it. */
import t from 'tap'
import { openForwarder } from '../../edge/protocols/v2-forwarder.js'
import type { FollowedRun } from '../../schemas/thread-stream.js'

const filter = { channels: ['lifecycle'], namespaces: null, depth: null }
const run = { run_id: 'r', events: true, claim_no: 1, attempt: 1 } as unknown as FollowedRun

function endOf(status: string): { event: string; error?: string } {
  const sent: Uint8Array[] = []
  const forwarder = openForwarder(filter as never, frames => sent.push(...frames))
  void forwarder.ended(run, status, 7, true)
  const [, json = ''] = /\ndata: (.*)\n\n$/.exec(Buffer.concat(sent).toString()) ?? []
  return (JSON.parse(json) as { params: { data: { event: string } } }).params.data
}

t.test('a run whose stored events have expired ends with its status', async t => {
  t.same(endOf('success'), { event: 'completed' })
  t.match(endOf('error'), { event: 'failed', error: /failed/ })
  t.match(endOf('timeout'), { event: 'failed', error: /too long/ })
  t.same(endOf('interrupted'), { event: 'interrupted' })
})
