/** The resource worker is paused: calls are refused in seconds, and nothing waits for a minute. */
import t from 'tap'
import { startRoles } from '../helpers/cluster.js'
import { finalStatuses } from './load.js'

t.setTimeout(180_000)
/** 5 s of silence, 1 s in which another worker may take the call, and a generous margin for a loaded machine. */
const REFUSED_MS = 15_000

t.test('calls to a paused resource worker are refused with Retry-After, and succeed when it continues', async t => {
  const roles = await startRoles({ app: 'test/apps/faults' })
  const worker = roles.resources[0]!
  t.teardown(async () => {
    worker.kill('SIGCONT')
    await roles.stop()
  })
  const url = roles.urls[0]!
  const call = (method: string, path: string, body?: object) =>
    fetch(`${url}${path}`, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  const { thread_id } = (await (await call('POST', '/threads', {})).json()) as { thread_id: string }

  worker.kill('SIGSTOP')
  const since = Date.now()
  const refused = await Promise.all([
    call('GET', `/threads/${thread_id}`),
    call('GET', `/threads/${thread_id}/state`),
    call('POST', '/threads/search', {}),
    call('POST', '/threads', {}),
    call('PATCH', `/threads/${thread_id}`, { metadata: { a: 1 } }),
  ])
  t.ok(Date.now() - since < REFUSED_MS, `refused after ${Date.now() - since} ms`)
  for (const answer of refused) {
    t.equal(answer.status, 503)
    t.equal(answer.headers.get('retry-after'), '1')
    t.match(await answer.json(), { detail: /^(The "weft resources" worker of this request has been silent|No "weft)/ })
  }

  // So are creates, because the cluster is not ready. The worker may carry them out later, as their answers say.
  const creates = await Promise.all(
    [`/threads/${thread_id}/runs`, `/threads/${thread_id}/runs/stream`, '/runs', '/runs/wait'].map(path =>
      call('POST', path, {
        assistant_id: 'steps',
        input: { steps: 2 },
        on_completion: 'keep',
        on_disconnect: 'continue',
      }),
    ),
  )
  t.equal((await call('GET', '/ready')).status, 503)
  const told: string[] = []
  for (const answer of creates) {
    t.equal(answer.status, 503)
    const { detail } = (await answer.json()) as { detail: string }
    told.push(/not known: GET (\S+) answers 200 then$/.exec(detail)?.[1] ?? detail)
  }

  // A create carries its id, so that it is sent again until the worker continues.
  const run = call('POST', `/threads/${thread_id}/runs`, { assistant_id: 'steps', input: { steps: 2 } })
  setTimeout(() => worker.kill('SIGCONT'), 2_000)
  const created = await run
  t.equal(created.status, 200)
  const { run_id } = (await created.json()) as { run_id: string }
  t.same(await finalStatuses(url, [{ thread_id, run_id }]), ['success'])
  const all = (await (await call('GET', `/threads/${thread_id}/runs`)).json()) as object[]
  t.equal(all.length, 3, 'the run exists once, beside the two of the thread that were answered 503')
  for (const path of told) t.equal((await call('GET', path)).status, 200, path)
})
