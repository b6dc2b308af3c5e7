/** Requests that the middleware of an application passes on to built-in routes. */
import { request } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { findApplication } from '../../cli/commands/application.js'
import { root } from '../../cli/root.js'
import { openStage } from './stage.js'

t.setTimeout(60_000)
const application = await findApplication(join(root, 'test/apps/custom-routes/langgraph.json'))

t.test('they count among the streams of the address of their client', async t => {
  const stage = await openStage({ streams_per_address: 1 }, application)
  t.teardown(() => stage.close())
  const run = stage.add()
  const path = `/runs/${run.head.run_id}/stream`
  /** The status of a stream from this address, which stays open. */
  const open = (localAddress: string) =>
    new Promise<number>((resolve, reject) => {
      const outgoing = request({ port: stage.port, path, localAddress }, incoming => resolve(incoming.statusCode!))
      outgoing.on('error', reject)
      t.teardown(() => outgoing.destroy())
      outgoing.end()
    })
  stage.publish(run, 0, 1)
  t.equal(await open('127.0.0.1'), 200)
  t.equal(await open('127.0.0.2'), 200, 'another client')
  t.equal(await open('127.0.0.1'), 429)
})
