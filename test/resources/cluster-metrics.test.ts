/** The figures of the cluster while a part of it does not answer: workers/resources/metrics.ts. */
import t from 'tap'
import { openLink } from '../../bus/connect.js'
import { openLog } from '../../bus/log.js'
import { ensureStreams } from '../../bus/streams.js'
import { readConfig } from '../../schemas/config.js'
import type { Deps } from '../../workers/resources/context.js'
import { clusterMetrics } from '../../workers/resources/metrics.js'
import { startNats } from '../helpers/nats.js'

const log = openLog('test', 'silent')
const names = async (deps: object) => (await clusterMetrics(deps as Deps)).samples.map(({ name }) => name)

t.test('a store that does not answer hides no figure of the broker, and the reverse', async t => {
  const nats = await startNats()
  const link = await openLink({ url: nats.url('resources'), role: 'resources', log })
  t.teardown(async () => {
    await link.close()
    await nats.stop()
  })
  const never = () => new Promise<never>(() => {})
  const refuses = () => Promise.reject(new Error('no primary'))
  await ensureStreams(link, readConfig({}, { max_file_store: 1024 ** 3 }))
  const silent = await names({ link, store: { runs: { counts: never, unsettled: refuses } } })
  t.ok(silent.includes('weft_stream_copies'))
  t.notOk(silent.includes('lg_api_num_pending_runs'), 'nobody knows it: a 0 would stop graph workers')

  const store = { runs: { counts: async () => ({ pending: 1, running: 2 }), unsettled: async () => [] } }
  await nats.stop()
  t.same(await names({ link, store }), ['lg_api_num_pending_runs', 'lg_api_num_running_runs'])
})
