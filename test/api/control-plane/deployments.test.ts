/** Deployments over HTTP, with a scripted deploy worker at the broker (docs/spec/control-plane.md#routes). */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import type { Deployment, DeploymentPatch, Revision } from '../../../schemas/deployments.js'
import { allGone, startRoles } from '../../helpers/cluster.js'
import { github, image, KEY, openControl, openDeployer, still } from '../../helpers/control.js'
import { until } from '../../helpers/until.js'

t.setTimeout(180_000)

interface List<T> {
  resources: T[]
  offset: number
}
interface Refused {
  detail: string
}

t.test('deployments', async t => {
  const roles = await startRoles({ graphs: 0, env: { WEFT_CONTROL_KEY: KEY } })
  t.teardown(() => roles.stop())
  const url = roles.urls[0]!
  const call = openControl(url)
  const deployer = await openDeployer(roles.nats.url('deployer'))
  t.teardown(() => deployer.close())

  const make = async (body: object) => {
    const { status, body: made, text } = await call<Deployment>('POST', '/v2/deployments', body)
    t.equal(status, 201, text)
    return made
  }
  const read = async (id: string) => (await call<Deployment>('GET', `/v2/deployments/${id}`)).body
  const patch = (id: string, body: DeploymentPatch, headers = {}) =>
    call<Deployment>('PATCH', `/v2/deployments/${id}`, body, headers)
  const revisions = async (id: string, query = '') =>
    (await call<List<Revision>>('GET', `/v2/deployments/${id}/revisions${query}`)).body.resources
  const revision = async (id: string, rid: string) =>
    (await call<Revision>('GET', `/v2/deployments/${id}/revisions/${rid}`)).body
  const idle = async () => {
    for (;;) {
      const task = await deployer.claim()
      if (task === null) return
      await deployer.advance(
        task,
        task.kind === 'delete' ? 'DELETED' : task.kind === 'interrupt' ? 'INTERRUPTED' : 'UNKNOWN',
      )
    }
  }

  await t.test('create, read, delete', async t => {
    const made = await make(github('one', { secrets: [{ name: 'A', value: 'first-value' }] }))
    t.match(made, { status: 'READY', active_revision_id: null, image_version: null, name: 'one', source: 'github' })
    t.match(made.source_config.custom_url, new RegExp(`^${url}/deployments/one-[0-9a-f]{8}$`))
    t.same(made.secrets, [{ name: 'A', value: '********' }])
    t.same(await read(made.id), made)
    t.same(await read(made.id.toUpperCase()), made, 'in other letters')
    const [first] = await revisions(made.id)
    t.match(first, { id: made.latest_revision_id, status: 'AWAITING_BUILD', status_message: null, source: 'github' })
    t.same(await revision(made.id, first!.id), first)
    const prefixed = await call<Deployment>('GET', `/api-host/v2/deployments/${made.id}`)
    t.same(prefixed.body, made, 'below the prefix of self-hosted installs')

    const taken = await call<Refused>('POST', '/v2/deployments', github('one'))
    t.match(taken, { status: 409, body: { detail: /one exists already/ } })
    t.equal((await call('DELETE', `/v2/deployments/${made.id}`)).status, 204)
    t.equal((await call('GET', `/v2/deployments/${made.id}`)).status, 404, 'no deploy worker ever had it')
    t.match(await call('DELETE', `/v2/deployments/${made.id}`), {
      status: 404,
      body: { detail: `Deployment ID ${made.id} not found.` },
    })
    t.equal((await call('POST', '/v2/deployments', github('one'))).status, 409, 'its project was kept')
    const other = await make(github('two'))
    await call('DELETE', `/v2/deployments/${other.id}?delete_tracing_project=true`)
    const again = await make(github('two'))
    t.not(again.id, other.id)
    t.equal((await call('DELETE', `/v2/deployments/${again.id}?delete_tracing_project=maybe`)).status, 422)
    await call('DELETE', `/v2/deployments/${again.id}`)
  })

  await t.test('a revision from its task to the cutover, and its successors', async t => {
    const made = await make(github('flown', { secrets: [{ name: 'A', value: 'first-value' }] }))
    const task = (await deployer.claim())!
    t.match(task, {
      deployment_id: made.id,
      revision_id: made.latest_revision_id,
      kind: 'deploy',
      stage: 'AWAITING_BUILD',
      seq: 1,
      epoch: 1,
    })
    t.same(task.env, { A: 'first-value' })
    t.equal(await deployer.claim(), null, 'only one has it')
    t.same(await deployer.renew(task), { interrupt: false })
    await deployer.advance(task, 'BUILDING')
    const sha = 'c'.repeat(40)
    await deployer.advance(task, 'BUILDING', { repo_commit_sha: sha })
    t.equal((await read(made.id)).source_revision_config.repo_commit_sha, sha)
    await deployer.advance(task, 'AWAITING_DEPLOY', { artefact: 'art-1' })
    await t.rejects(deployer.advance(task, 'DEPLOYED'), { code: 'conflict' }, 'a pair that the machine has not')
    await deployer.advance(task, 'DEPLOYING', { message: 'starting with first-value' })
    t.equal((await revision(made.id, task.revision_id)).status_message, 'starting with [redacted]')
    await deployer.advance(task, 'DEPLOYED', { graphs: [{ graph_id: 'agent' }], image_version: '1.0' })
    const served = await read(made.id)
    t.match(served, { active_revision_id: task.revision_id, status: 'READY', image_version: '1.0' })
    t.ok(served.updated_at > made.updated_at)
    t.match(await revision(made.id, task.revision_id), {
      status: 'DEPLOYED',
      status_message: null,
      source_revision_config: { repo_commit_sha: sha },
    })
    t.match(await deployer.active(), [
      { deployment_id: made.id, artefact: 'art-1', revision_id: task.revision_id, graphs: [{ graph_id: 'agent' }] },
    ])
    await t.rejects(deployer.renew(task), { code: 'fenced' }, 'the task is over')

    await t.test('three revisions: one rolls out, the middle one is skipped, the newest follows', async t => {
      const ids: string[] = []
      for (const repo_ref of ['r2', 'r3', 'r4']) {
        const after = await patch(made.id, { source_revision_config: { repo_ref } })
        ids.push(after.body.latest_revision_id!)
        t.equal(after.body.source_revision_config.repo_ref, repo_ref)
        t.equal(after.body.source_revision_config.repo_commit_sha, null)
      }
      t.same(
        (await revisions(made.id)).map(({ status }) => status),
        ['QUEUED', 'SKIPPED', 'AWAITING_BUILD', 'DEPLOYED'],
      )
      t.same(
        (await revisions(made.id, '?status=SKIPPED,QUEUED')).map(({ id }) => id),
        [ids[2], ids[1]],
      )
      t.same(
        (await revisions(made.id, '?limit=1&offset=2')).map(({ id }) => id),
        [ids[0]],
      )
      const failed = await deployer.bring('BUILD_FAILED', { message: 'npm: no such package\nsee the log' })
      t.equal(failed.revision_id, ids[0])
      t.equal(failed.previous_revision_id, task.revision_id)
      t.match(await revision(made.id, ids[0]!), {
        status: 'BUILD_FAILED',
        status_message: 'npm: no such package see the log',
      })
      t.equal((await read(made.id)).active_revision_id, task.revision_id, 'the old one continues to serve')
      const last = await deployer.bring('DEPLOYED')
      t.equal(last.revision_id, ids[2])
      t.match(await read(made.id), { active_revision_id: ids[2], latest_revision_id: ids[2] })
      t.same(
        (await revisions(made.id)).map(({ status }) => status),
        ['DEPLOYED', 'SKIPPED', 'BUILD_FAILED', 'DEPLOYED'],
      )
      t.match(await call('POST', `/v2/deployments/${made.id}/revisions/${ids[1]}/redeploy`), {
        status: 400,
        body: { detail: /skipped/ },
      })
    })

    await t.test('redeploy: a new revision with the commit, the artefact and the secrets of the old one', async t => {
      await patch(made.id, { secrets: [{ name: 'B', value: 'second-value' }] })
      await deployer.bring('DEPLOYED')
      const { status, body } = await call<Deployment>(
        'POST',
        `/v2/deployments/${made.id}/revisions/${task.revision_id}/redeploy`,
      )
      t.equal(status, 200)
      t.same(body.secrets, [{ name: 'A', value: '********' }])
      t.match(body.source_revision_config, { repo_ref: 'main', repo_commit_sha: sha })
      t.match((await revisions(made.id))[0], { redeploy_of: task.revision_id, status: 'AWAITING_DEPLOY' })
      const again = await deployer.bring('DEPLOYED')
      t.match(again, { artefact: 'art-1', repo_commit_sha: sha, env: { A: 'first-value' } })
      t.equal((await read(made.id)).active_revision_id, again.revision_id)
    })

    await t.test('interrupt', async t => {
      const interrupt = (rid: string) => call<Revision>('POST', `/v2/deployments/${made.id}/revisions/${rid}/interrupt`)
      const waiting = (await call<Revision>('POST', `/v2/deployments/${made.id}/revisions`, {})).body
      t.match(
        await interrupt(waiting.id),
        { status: 200, body: { status: 'INTERRUPTED' } },
        'no worker has it: at once',
      )
      t.match(await interrupt(waiting.id), { status: 400, body: { detail: /INTERRUPTED/ } })

      const { status, body: working } = await call<Revision>('POST', `/v2/deployments/${made.id}/revisions`, {})
      t.equal(status, 201)
      const task = (await deployer.claim())!
      await deployer.advance(task, 'BUILDING')
      const queued = (await call<Revision>('POST', `/v2/deployments/${made.id}/revisions`, {})).body
      t.match(await interrupt(queued.id), { status: 200, body: { status: 'INTERRUPTED' } }, 'one that waits behind it')
      t.match(
        await interrupt(working.id),
        { status: 200, body: { status: 'BUILDING' } },
        'its deploy worker is notified',
      )
      t.same(await deployer.renew(task), { interrupt: true })
      await deployer.advance(task, 'AWAITING_DEPLOY')
      await deployer.advance(task, 'DEPLOYING')
      await t.rejects(deployer.advance(task, 'DEPLOYED'), { code: 'conflict' }, 'it cannot be deployed any more')
      await deployer.advance(task, 'INTERRUPTED')
      t.equal((await revision(made.id, working.id)).status, 'INTERRUPTED')
      t.equal(await deployer.claim(), null)
      const fresh = (await call<Revision>('POST', `/v2/deployments/${made.id}/revisions`, {})).body
      const mine = (await deployer.claim())!
      t.equal(mine.revision_id, fresh.id)
      await t.rejects(deployer.advance(mine, 'INTERRUPTED'), { code: 'conflict' }, 'no client asked for it')
      await t.rejects(deployer.advance({ ...mine, epoch: mine.epoch - 1 }, 'BUILDING'), { code: 'fenced' })
      await deployer.advance(mine, 'UNKNOWN')
    })

    await t.test('delete: at once for clients, then by deploy workers', async t => {
      await call('POST', `/v2/deployments/${made.id}/revisions`, {})
      const mine = (await deployer.claim())!
      t.equal((await call('DELETE', `/v2/deployments/${made.id}`)).status, 204)
      t.equal((await call('DELETE', `/v2/deployments/${made.id}`)).status, 204, 'again')
      t.equal((await read(made.id)).status, 'AWAITING_DELETE')
      t.match(await patch(made.id, { secrets: [] }), { status: 400, body: { detail: /being deleted/ } })
      t.match(await call('POST', `/v2/deployments/${made.id}/revisions`, {}), { status: 400 })
      t.same(await deployer.active(), [], 'not to be routed to')
      t.same(await deployer.renew(mine), { interrupt: true })
      await t.rejects(deployer.advance(mine, 'DELETED'), { code: 'conflict' })
      await deployer.advance(mine, 'INTERRUPTED')
      const task = (await deployer.claim())!
      t.match(task, { kind: 'delete', deployment_id: made.id, env: {} })
      await deployer.advance(task, 'DELETED')
      await deployer.advance(task, 'DELETED')
      t.equal((await call('GET', `/v2/deployments/${made.id}`)).status, 404)
      t.equal((await call('GET', `/v2/deployments/${made.id}/revisions`)).status, 404)
    })
  })

  await t.test('PATCH: changes, new revisions, refusals', async t => {
    await idle()
    const made = await make(
      image('patched', {
        secrets: [
          { name: 'A', value: 'a-value' },
          { name: 'B', value: 'b-value' },
        ],
      }),
    )
    await deployer.bring('DEPLOYED')
    const before = await read(made.id)
    t.equal(before.image_version, '1.2.3', 'the tag of the image')

    for (const body of [
      {},
      { source_config: null, source_revision_config: null, secrets: null },
      { unknown: 1, source_config: { shareable: true } },
    ]) {
      const { status, body: after } = await patch(made.id, body as never)
      t.equal(status, 200)
      t.same(after, before, `${JSON.stringify(body)} changes nothing, not updated_at either`)
    }
    const moved = await patch(made.id, {
      source_config: { custom_url: 'https://agents.example.com', resource_spec: { cpu: 0.5 } },
    })
    t.match(moved.body, {
      latest_revision_id: before.latest_revision_id,
      source_config: { custom_url: 'https://agents.example.com', resource_spec: { cpu: 0.5 } },
    })
    t.ok(moved.body.updated_at > before.updated_at)
    t.match(await deployer.active(), [{ generation: 2, resource_spec: { cpu: 0.5 } }])
    const cleared = await patch(made.id, { source_config: { custom_url: '', resource_spec: {} } })
    t.match(cleared.body.source_config, { custom_url: new RegExp(`^${url}/deployments/`), resource_spec: {} })

    const count = (await revisions(made.id)).length
    const two = await patch(made.id, {
      source_config: { resource_spec: { memory_mb: 256 } },
      source_revision_config: { image_uri: 'registry.example.com/agents/one:2' },
      secrets: [
        { name: 'A', value: '********' },
        { name: 'C', value: 'c-value' },
      ],
    })
    t.equal((await revisions(made.id)).length, count + 1, 'several triggers, one revision')
    t.same(two.body.secrets, [
      { name: 'A', value: '********' },
      { name: 'C', value: '********' },
    ])
    const task = await deployer.bring('DEPLOYED')
    t.same(task.env, { A: 'a-value', C: 'c-value' }, 'the mask kept the stored value')
    t.match(await patch(made.id, { secrets: [{ name: 'D', value: '********' }] }), {
      status: 400,
      body: { detail: /D has the value/ },
    })
    const none = await patch(made.id, { secrets: [] })
    t.same(none.body.secrets, [])
    t.same((await deployer.bring('DEPLOYED')).env, {})
    const equal = await patch(made.id, { source_revision_config: { image_uri: 'registry.example.com/agents/one:2' } })
    t.not(equal.body.latest_revision_id, none.body.latest_revision_id, 'an equal value makes a revision, too')
    await deployer.bring('DEPLOYED')

    const stored = await read(made.id)
    const refusals: [DeploymentPatch, RegExp][] = [
      [{ source_config: { repo_url: 'https://example.com/x' } }, /repo_url cannot be changed/],
      [{ source_config: { deployment_type: 'dev' } }, /deployment_type cannot be changed/],
      [{ source_revision_config: { repo_ref: 'main' } }, /repo_ref must be null/],
      [{ source_revision_config: { image_uri: '' } }, /image_uri cannot be cleared/],
      [{ secrets: [{ name: 'PATH', value: 'x' }] }, /PATH is set by the platform/],
      [
        { source_config: { build_command: 'make' }, secrets: [{ name: 'OK', value: 'x' }] },
        /build_command must be null/,
      ],
    ]
    for (const [body, detail] of refusals) t.match(await patch(made.id, body), { status: 400, body: { detail } })
    t.same(await read(made.id), stored, 'nothing of what was refused is there')

    const etag = (await call('GET', `/v2/deployments/${made.id}`)).headers.get('etag')!
    t.equal((await patch(made.id, { source_config: { resource_spec: { cpu: 1 } } }, { 'if-match': '"1"' })).status, 412)
    t.equal((await patch(made.id, { source_config: { resource_spec: { cpu: 1 } } }, { 'if-match': etag })).status, 200)
    t.equal((await patch(made.id, { source_config: { resource_spec: { cpu: 2 } } }, { 'if-match': etag })).status, 412)

    const many = await Promise.all(
      Array.from({ length: 12 }, (_, i) => patch(made.id, { secrets: [{ name: `N${i}`, value: 'v' }] })),
    )
    t.same(
      many.map(({ status }) => status),
      many.map(() => 200),
    )
    const all = await revisions(made.id, '?limit=100')
    t.equal(new Set(all.map(({ id }) => id)).size, count + 15, 'each made one')
    t.equal(all.filter(({ status }) => status === 'QUEUED').length, 1)
    t.equal(all.filter(({ status }) => status === 'SKIPPED').length, 10)
    t.equal(all[0]!.id, (await read(made.id)).latest_revision_id)
  })

  await t.test('github: members of this source only', async t => {
    await idle()
    const made = await make(
      github('owned', {
        source_config: {
          repo_url: 'https://example.com/a',
          deployment_type: 'prod',
          install_command: 'npm ci && npm test',
        },
      }),
    )
    t.match(made.source_config, {
      deployment_type: 'prod',
      build_on_push: false,
      install_command: 'npm ci && npm test',
    })
    const same = await patch(made.id, { source_config: made.source_config as never })
    t.same(still(same.body), still(made), 'read, modify nothing, write')
    t.match(await patch(made.id, { source_config: { custom_url: 'https://x.example.com' } }), { status: 400 })
    await patch(made.id, { source_revision_config: { langgraph_config_path: 'apps/a.json' } as never })
    const config = (await read(made.id)).source_revision_config as object
    t.match(config, { graph_config_path: 'apps/a.json', langgraph_config_path: 'apps/a.json' })
    for (const source of ['internal_docker', 'internal_source', 'internal_template'])
      t.match(await call('POST', '/v2/deployments', { ...github('x'), source }), {
        status: 400,
        body: { detail: new RegExp(source) },
      })
    t.match(await call('POST', '/v2/deployments', github('x', { secrets: [{ name: 'A', value: '********' }] })), {
      status: 400,
    })
    const { secrets: _, ...without } = github('no-secrets')
    t.same((await make(without)).secrets, [])
  })

  await t.test('Idempotency-Key', async t => {
    const key = { 'idempotency-key': randomUUID() }
    const post = (body: object) => call<Deployment>('POST', '/v2/deployments', body, key)
    const [one, two] = await Promise.all([post(github('once')), post(github('once'))])
    const made = one.status === 201 ? one : two
    t.equal(made.status, 201)
    t.equal((await post(github('once'))).body.id, made.body.id)
    t.match(await post(github('another')), { status: 409, body: { detail: /Idempotency-Key/ } })
    t.match(await post(github('once', { secrets: [{ name: 'A', value: 'b' }] })), { status: 409 })
  })

  await t.test('logs', async t => {
    await idle()
    const secret = 'log-secret-value'
    const made = await make(github('logged', { secrets: [{ name: 'A', value: secret }] }))
    const task = (await deployer.claim())!
    const now = Date.now()
    const line = (i: number, text = `line ${i}`, level = 'info') => ({ t: now - 1000 + i, level, text })
    const batch = Array.from({ length: 250 }, (_, i) => line(i))
    await deployer.log(task, 'build', batch)
    await deployer.log(task, 'build', batch)
    await deployer.log(task, 'build', [
      line(300, `token ${secret} \u001b[31mred\u001b[0m`, 'warn'),
      line(301, 'x'.repeat(40_000), 'ERROR'),
      line(302, 'clone https://u:p4ss@example.com/r'),
    ])
    await deployer.log(task, 'runtime', [line(150, 'runtime line')])

    interface Logs {
      logs: { id: string; timestamp: number; level: string; message: string }[]
      next_offset: string | null
    }
    const at = `/v1/projects/${made.id}/revisions/${task.revision_id}/build_logs`
    const query = async (body: object, path = at) => {
      const { status, body: found, text } = await call<Logs>('POST', path, body)
      t.equal(status, 200, text)
      return found
    }
    const walked: Logs['logs'] = []
    let offset: string | null = null
    do {
      const page: Logs = await query({ order: 'asc', limit: 100, ...(offset === null ? {} : { offset }) })
      walked.push(...page.logs)
      offset = page.next_offset
    } while (offset !== null)
    t.equal(walked.length, 253, 'each once, the repeated batch, too')
    t.equal(new Set(walked.map(({ id }) => id)).size, 253)
    t.same(
      walked.slice(0, 250).map(({ message }) => message),
      batch.map(({ text }) => text),
    )
    t.equal(walked[250]!.message, 'token [redacted] red')
    t.match(
      walked.slice(250).map(({ level }) => level),
      ['WARNING', 'ERROR', 'INFO'],
    )
    t.match(walked[251]!.message, /^x+… \[cut\]$/)
    t.equal(Buffer.byteLength(walked[251]!.message), 16 * 1024)
    t.equal(walked[252]!.message, 'clone https://[redacted]@example.com/r')

    const back: Logs = await query({ order: 'desc', limit: 30 })
    t.same(back.logs, walked.slice(-30).reverse(), 'the last thirty')
    t.same((await query({ order: 'desc', limit: 30, offset: back.next_offset })).logs, walked.slice(-60, -30).reverse())
    const from = walked[200]!.timestamp
    t.same((await query({ order: 'asc', limit: 1000, start_time: from })).logs, walked.slice(200), 'from a time on')
    const between = await query({ limit: 1000, start_time: new Date(from).toISOString(), end_time: from + 2 })
    t.same(between.logs, walked.slice(200, 203))
    t.same((await query({ limit: 10, level: 'error' })).logs, [walked[251]])
    t.same((await query({ limit: 10, query: 'LINE 24' })).logs.length, 10)
    t.same((await query({ limit: 10, query: secret })).logs, [])
    const runtime = await query({ limit: 10 }, `/v1/projects/${made.id}/deploy_logs`)
    t.same(
      runtime.logs.map(({ message }) => message),
      ['runtime line'],
    )
    const own = await call<Logs>('GET', `/v2/deployments/${made.id}/revisions/${task.revision_id}/logs?limit=1000`)
    t.same(own.body.logs.length, 254, 'all stages, in the order of their times')
    t.same(
      own.body.logs.map(({ timestamp }) => timestamp),
      own.body.logs.map(({ timestamp }) => timestamp).sort((a, b) => a - b),
    )
    t.equal((await call<Logs>('GET', `/v2/deployments/${made.id}/logs?stage=runtime`)).body.logs.length, 1)

    const wrong: [object, string][] = [
      [{ limit: 0 }, 'limit'],
      [{ limit: 1001 }, 'limit'],
      [{ limit: 'x' }, 'limit'],
      [{ order: 'up' }, 'order'],
      [{ offset: 7 }, 'offset'],
      [{ offset: '%%' }, 'offset'],
      [{ level: 'loud' }, 'level'],
      [{ start_time: 'then' }, 'start_time'],
      [{ end_time: {} }, 'end_time'],
      [{ query: 1 }, 'query'],
    ]
    for (const [body, name] of wrong)
      t.match(await call('POST', at, body), { status: 422, body: { detail: [{ loc: ['body', name] }] } }, name)
    t.equal((await call('POST', at.replace(task.revision_id, randomUUID()), {})).status, 404)
    t.equal((await call('GET', `/v2/deployments/${made.id}/logs?stage=other`)).status, 422)
    await deployer.advance(task, 'UNKNOWN')
  })

  await t.test('bulk delete', async t => {
    const one = await make(github('bulk-1'))
    const two = await make(github('bulk-2'))
    const none = randomUUID()
    t.equal((await call('DELETE', '/v2/deployments')).status, 422)
    t.equal((await call('DELETE', '/v2/deployments?deployment_ids=x')).status, 422)
    const partial = await call<{ results: { deployment_id: string; status: number }[] }>(
      'DELETE',
      `/v2/deployments?deployment_ids=${one.id}&deployment_ids=${none}`,
    )
    t.equal(partial.status, 207)
    t.same(
      partial.body.results.map(({ deployment_id, status }) => [deployment_id, status]),
      [
        [one.id, 204],
        [none, 404],
      ],
    )
    t.equal((await call('DELETE', `/v2/deployments?deployment_ids=${two.id}`)).status, 200)
    t.equal((await call('GET', `/v2/deployments/${two.id}`)).status, 404)
  })
})

t.test('wake-ups: for each task, and again for a task without a holder after a restart', async t => {
  const roles = await startRoles({ graphs: 0, env: { WEFT_CONTROL_KEY: KEY } })
  t.teardown(() => roles.stop())
  const call = openControl(roles.urls[0]!)
  const deployer = await openDeployer(roles.nats.url('deployer'))
  t.teardown(() => deployer.close())
  const { id, latest_revision_id } = (await call<Deployment>('POST', '/v2/deployments', github('woken'))).body
  const announced = (what: string) => until(() => deployer.woken.includes(`${what} ${id}`))
  await announced('deploy')
  deployer.woken.length = 0
  const [resources] = roles.resources
  resources!.kill('SIGKILL')
  await allGone([resources!.pid])
  await roles.add('resources')
  await announced('deploy')
  const task = (await deployer.claim())!
  t.equal(task.revision_id, latest_revision_id)
  await deployer.advance(task, 'BUILDING')
  await call('POST', `/v2/deployments/${id}/revisions/${latest_revision_id}/interrupt`)
  await announced('interrupt')
  await deployer.advance(task, 'INTERRUPTED')
  await call('DELETE', `/v2/deployments/${id}`)
  await announced('delete')
})

t.test('lists: pages and filters', async t => {
  const roles = await startRoles({ graphs: 0, env: { WEFT_CONTROL_KEY: KEY } })
  t.teardown(() => roles.stop())
  const call = openControl(roles.urls[0]!)
  const deployer = await openDeployer(roles.nats.url('deployer'))
  t.teardown(() => deployer.close())
  const list = async (query = '') => {
    const { status, body, text } = await call<List<Deployment>>('GET', `/v2/deployments${query}`)
    t.equal(status, 200, text)
    return body
  }
  t.same(await list(), { resources: [], offset: 0 })

  const special = [
    github('Alpha_one', { source_config: { repo_url: 'https://example.com/a', deployment_type: 'prod' } }),
    github('alpha-two', { source_config: { repo_url: 'https://example.com/a', deployment_type: 'dev_free' } }),
    image('alpha-three'),
  ]
  const ids: string[] = []
  for (const body of special) ids.push((await call<Deployment>('POST', '/v2/deployments', body)).body.id)
  const [one, two, three] = ids as [string, string, string]
  await deployer.bring('DEPLOYED', { image_version: 'v1' })
  await deployer.bring('DEPLOYED', { image_version: 'v2' })
  await deployer.bring('DEPLOYED')
  t.equal((await call('DELETE', `/v2/deployments/${two}`)).status, 204)
  const some = Array.from({ length: 247 }, (_, i) => github(`walked-${i}`))
  for (let i = 0; i < some.length; i += 20)
    for (const made of await Promise.all(
      some.slice(i, i + 20).map(body => call<Deployment>('POST', '/v2/deployments', body)),
    ))
      ids.push(made.body.id)

  await t.test('250 in pages of 100, newest first', async t => {
    const pages: List<Deployment>[] = []
    let offset = 0
    do {
      pages.push(await list(`?limit=100&offset=${offset}`))
      offset = pages.at(-1)!.offset
    } while (pages.at(-1)!.resources.length === 100)
    t.same(
      pages.map(({ resources, offset }) => [resources.length, offset]),
      [
        [100, 100],
        [100, 200],
        [50, 250],
      ],
    )
    const walked = pages.flatMap(({ resources }) => resources)
    t.same(walked.map(({ id }) => id).sort(), [...ids].sort(), 'every one once')
    const sorted = [...walked].sort((a, b) => b.created_at.localeCompare(a.created_at) || (a.id < b.id ? 1 : -1))
    t.same(
      walked.map(({ id }) => id),
      sorted.map(({ id }) => id),
    )
    t.equal((await list()).resources.length, 20, 'twenty when nothing is said')
    t.same(await list('?offset=1000'), { resources: [], offset: 1000 })
  })

  await t.test('each filter, alone and with others', async t => {
    const rows: [string, string[]][] = [
      ['name_contains=ALPHA', [three, two, one]],
      ['name_contains=alpha-t', [three, two]],
      ['name=Alpha_one', [one]],
      ['name=alpha_one', []],
      ['name=alpha', []],
      ['status=AWAITING_DELETE', [two]],
      ['status=UNUSED', []],
      ['deployment_type=prod', [one]],
      ['deployment_type=dev_free', [two]],
      ['image_version=v1', [one]],
      ['image_version=1.2.3', [three]],
      ['image_version=v', []],
      [`deployment_ids=${one},${three}`, [three, one]],
      [`deployment_ids=,${one},,`, [one]],
      [`deployment_ids=${randomUUID()}`, []],
      [`tag_value_ids=${randomUUID()}`, []],
      ['remote_reconciled=true', []],
      [`remote_reconciled=false&deployment_ids=${one},${two}`, [two, one]],
      ['name_contains=alpha&status=READY', [three, one]],
      ['name_contains=alpha&status=READY&deployment_type=prod', [one]],
      ['name_contains=alpha&name=alpha-two&status=AWAITING_DELETE&deployment_type=dev_free&image_version=v2', [two]],
      [`name_contains=alpha&deployment_ids=${one},${two},${three}&limit=1&offset=1`, [two]],
      [`name_contains=&status=&deployment_ids=${one}&image_version=`, [one]],
    ]
    for (const [query, wanted] of rows)
      t.same(
        (await list(`?${query}`)).resources.map(({ id }) => id),
        wanted,
        query,
      )
    t.equal((await list('?deployment_type=dev&limit=100&offset=200')).resources.length, 47)
  })

  await t.test('422 for every parameter', async t => {
    const rows = [
      'limit=0',
      'limit=101',
      'limit=x',
      'limit=1.5',
      'limit=',
      'offset=-1',
      'offset=x',
      'status=DONE',
      'status=ready',
      'remote_reconciled=maybe',
      'tag_value_ids=x',
      'deployment_type=serverless',
      'deployment_ids=x',
      `deployment_ids=${Array.from({ length: 101 }, () => randomUUID()).join()}`,
      `name=${'x'.repeat(2000)}`,
    ]
    for (const query of rows) {
      const answer = await call<{ detail: object[] }>('GET', `/v2/deployments?${query}`)
      t.match(
        answer,
        { status: 422, body: { detail: [{ loc: ['query', query.split('=')[0]], msg: /expected/, type: String }] } },
        query.slice(0, 40),
      )
    }
    t.equal(
      (await call<{ detail: object[] }>('GET', '/v2/deployments?limit=0&offset=-1&status=x')).body.detail.length,
      3,
      'all at once',
    )
  })
})
