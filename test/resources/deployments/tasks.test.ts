/**
 * Deployments in the store: leases that end, crashes between any two steps, and random work by two resource workers at
 * once. The store does steps one by one, as one without transactions.
 */
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { v7 } from 'uuid'
import type { Reply } from '../../../bus/serve.js'
import type { Claimed, DeployAdvance, DeployTask, Renewed } from '../../../schemas/deploy-calls.js'
import type { RevisionStatus } from '../../../schemas/deployments.js'
import { WeftError } from '../../../schemas/errors.js'
import type { Store } from '../../../store/port.js'
import type { RecordRow } from '../../../store/rows/records.js'
import type { Deps } from '../../../workers/resources/context.js'
import { createRevision, patchDeployment, redeploy } from '../../../workers/resources/deployments/change.js'
import { createDeployment } from '../../../workers/resources/deployments/create.js'
import { openRedactors } from '../../../workers/resources/deployments/redact.js'
import {
  type DeploymentBody,
  findDeployment,
  isUncommitted,
  type Parsed,
  parseRow,
  type RevisionBody,
  statusOf,
} from '../../../workers/resources/deployments/row.js'
import { isOver, REVISION } from '../../../workers/resources/deployments/status.js'
import { deleteDeployment, interrupt } from '../../../workers/resources/deployments/stop.js'
import { sweepOrphans, sweepTasks } from '../../../workers/resources/deployments/sweep.js'
import { DEPLOYER_INBOX, deployTasks, promote } from '../../../workers/resources/deployments/tasks.js'
import { secretsOf } from '../../../workers/resources/deployments/text.js'
import { removeDeployment } from '../../../workers/resources/deployments/write.js'
import { each } from '../../../workers/resources/rows/record.js'
import { github, image } from '../../helpers/control.js'
import { Crash, type Stepwise, stage, stepwise } from '../stage.js'

type Handler = { handle(value: unknown, context: object): Promise<Reply> }

t.setTimeout(120_000)

/** A deploy worker that asks this resource worker. */
function deployer(deps: Deps) {
  const handlers = deployTasks(deps, openRedactors(deps)) as unknown as { [verb: string]: Handler }
  const context = {
    head: { request_id: '' },
    from: `${DEPLOYER_INBOX}x`,
    deadline: Date.now() + 60_000,
    log: deps.link.log,
  }
  const ask = async <T>(verb: string, body: object) =>
    JSON.parse((await handlers[verb]!.handle(body, context)).body as string) as T
  const held = ({ deployment_id, revision_id, epoch }: DeployTask) => ({ deployment_id, revision_id, epoch })
  return {
    claim: async (worker = 'w') => (await ask<Claimed>('claim', { worker })).task,
    renew: (task: DeployTask) => ask<Renewed>('renew', held(task)),
    advance: (task: DeployTask, status: DeployAdvance['status'], more = {}) =>
      ask('advance', { ...held(task), status, ...more }),
  }
}

/** Moves the lease of the deployment and the start of its rollout into the past. */
async function age(store: Store, id: string, ms: number): Promise<void> {
  const { body, rev } = (await findDeployment(store, id))!
  const lease = body.lease === null ? null : { ...body.lease, until: body.lease.until - ms }
  const rollout = body.rollout === null ? null : { ...body.rollout, since: body.rollout.since - ms }
  const set = { body: JSON.stringify({ ...body, lease, rollout }), due_at: lease?.until ?? Date.now() - 1 }
  const failed = await store.apply([{ step: 'records.patch', kind: 'deployment', id, where: { rev }, set }])
  if (failed !== -1) throw new Error('the deployment was changed meanwhile')
}

const all = async (store: Store, kind: string, parent?: string): Promise<RecordRow[]> => {
  const rows: RecordRow[] = []
  for await (const row of each(store, { kind, ...(parent === undefined ? {} : { parent }) })) rows.push(row)
  return rows
}

/** Throws when an invariant of the deployment does not hold. */
async function sound(deps: Deps, store: Store, id: string): Promise<void> {
  const deployment = await findDeployment(store, id)
  if (deployment === null) return
  const { body } = deployment
  const say = (ok: boolean, what: string) => {
    if (!ok) throw new Error(`${what}: ${JSON.stringify(body)}`)
  }
  const rows = (await all(store, 'revision', id)).filter(one => !isUncommitted(one, body)).map(parseRow<RevisionBody>)
  const by = new Map(rows.map(one => [one.id, one]))
  // The removal is in progress: the record itself is removed last.
  if (body.status === 'AWAITING_DELETE' && !by.has(body.latest!)) return
  say(by.get(body.latest!)?.body.seq === body.seq, 'the latest revision is the one of that number')
  say(new Set(rows.map(one => one.body.seq)).size === rows.length, 'each number exists once')
  for (const referred of [body.rollout?.revision_id, body.queued, body.serving?.revision_id])
    say(!referred || by.has(referred), 'the referenced revision exists')
  const seq = (of: string | undefined | null) => (of ? (by.get(of)?.body.seq ?? 0) : Infinity)
  say(seq(body.queued) > (body.rollout?.seq ?? 0), 'the queued revision is newer than the rollout')
  if (body.serving !== null)
    say(statusOf(by.get(body.serving.revision_id)!, body) === 'DEPLOYED', 'the active revision is DEPLOYED')
  for (const one of rows) {
    const status = statusOf(one, body)
    say(
      isOver(status) || one.id === body.queued || one.id === body.rollout?.revision_id,
      'no other revision is in progress',
    )
    await secretsOf(deps, id, one.body.secrets)
  }
  say((await store.records.get('project', id)) !== null || body.status === 'AWAITING_DELETE', 'its project exists')
}

/** Accepts a refusal by a rule; other errors are failures. */
function refused(error: unknown): void {
  if (!(error instanceof WeftError) || error.status >= 500) throw error
}

/** Removes the deployment for the next case. */
async function forget(deps: Deps, id: string): Promise<void> {
  const row = await findDeployment(deps.store, id)
  if (row !== null) await removeDeployment(deps, row)
}

/** After the sweeps of a minute there are no uncommitted records. */
async function swept(t: Test, deps: Deps, store: Store, what: string): Promise<void> {
  await sweepTasks(deps)
  await sweepOrphans(deps, Date.now() + 120_000)
  const deployments = new Map((await all(store, 'deployment')).map(row => [row.id, parseRow<DeploymentBody>(row).body]))
  const revisions = await all(store, 'revision')
  const used = new Set(revisions.map(row => parseRow<RevisionBody>(row).body.secrets))
  const stray = [...revisions, ...(await all(store, 'secrets'))].filter(({ kind, id, parent, due_at }) => {
    if (!deployments.has(parent) || due_at !== null) return true
    return kind === 'secrets' && !used.has(id) && deployments.get(parent)!.status !== 'AWAITING_DELETE'
  })
  t.same(stray, [], `${what}: no uncommitted records`)
}

t.test('the task of a dead deploy worker continues at its stage', async t => {
  const { store, all } = await stage(t, 2)
  const [one, two] = [deployer(all[0]!), deployer(all[1]!)]
  const { id } = await createDeployment(all[0]!, github('one', { secrets: [{ name: 'A', value: 'the-value' }] }))
  const first = (await one.claim())!
  await one.advance(first, 'BUILDING', { repo_commit_sha: 'a'.repeat(40) })
  t.equal(await two.claim(), null, 'the lease is still valid')
  await age(store, id, 31_000)
  const second = (await two.claim())!
  t.match(second, {
    revision_id: first.revision_id,
    stage: 'BUILDING',
    repo_commit_sha: 'a'.repeat(40),
    epoch: first.epoch + 1,
  })
  await t.rejects(one.renew(first), { code: 'fenced' })
  await t.rejects(one.advance(first, 'AWAITING_DEPLOY'), { code: 'fenced' })
  await two.advance(second, 'AWAITING_DEPLOY', { artefact: 'x' })
  await two.advance(second, 'DEPLOYING')
  await age(store, id, 31_000)
  const third = (await one.claim())!
  t.match(third, { stage: 'DEPLOYING', artefact: 'x', epoch: second.epoch + 1 })
  await one.advance(third, 'DEPLOYED')
  await one.advance(third, 'DEPLOYED')
  await t.rejects(two.advance(second, 'DEPLOYED'), { code: 'fenced' })
  await t.rejects(one.advance(third, 'DEPLOY_FAILED'), { code: 'conflict' }, 'DEPLOYED is final')
  await sound(all[0]!, store, id)
})

t.test('concurrent claims: one worker gets the task', async t => {
  const { all } = await stage(t, 2)
  for (let i = 0; i < 3; i++) await createDeployment(all[0]!, github(`at-once-${i}`))
  const workers = Array.from({ length: 12 }, (_, i) => deployer(all[i % 2]!))
  const got = (await Promise.all(workers.map((worker, i) => worker.claim(`w${i}`)))).filter(task => task !== null)
  t.equal(new Set(got.map(({ deployment_id }) => deployment_id)).size, got.length, 'no task has two holders')
  const rest = await workers[0]!.claim()
  t.ok(got.length === 3 || rest !== null)
})

t.test('a revision without a deploy worker fails, and the queued one follows', async t => {
  const { store, all } = await stage(t, 1)
  const deps = all[0]!
  const made = await createDeployment(deps, github('waits'))
  await sweepTasks(deps)
  t.equal((await findDeployment(store, made.id))!.body.rollout!.status, 'AWAITING_BUILD', 'not yet')
  const after = await createRevision(deps, made.id, {})
  await age(store, made.id, 31 * 60_000)
  await sweepTasks(deps)
  const { body } = (await findDeployment(store, made.id))!
  t.match(body.rollout, { revision_id: after.body.latest, status: 'AWAITING_BUILD' })
  const failed = parseRow<RevisionBody>((await store.records.get('revision', made.body.latest!))!)
  t.match(failed.body, { status: 'BUILD_FAILED', status_message: /no deploy worker took it within 30 minutes.*github/ })

  const other = await createDeployment(deps, image('waits-too'))
  await age(store, other.id, 14 * 60_000)
  await sweepTasks(deps)
  t.equal((await findDeployment(store, other.id))!.body.rollout!.status, 'AWAITING_DEPLOY')
  await age(store, other.id, 2 * 60_000)
  await sweepTasks(deps)
  t.equal((await findDeployment(store, other.id))!.body.rollout!.status, 'DEPLOY_FAILED')
  await sound(deps, store, made.id)
  await sound(deps, store, other.id)
})

t.test('a crash between any two steps', async t => {
  const { store, all } = await stage(t, 1, store => stepwise(store))
  const deps = all[0]!
  const dying = deps.store as Stepwise
  const worker = deployer(deps)
  const secrets = [{ name: 'A', value: 'a-value' }]
  const fresh = async () => (await createDeployment(deps, github(`n${v7()}`, { secrets }))).id
  const deployed = async () => {
    const id = await fresh()
    await through(id, 'DEPLOYED')
    return id
  }
  const through = async (id: string, last: RevisionStatus) => {
    const task = (await claimOf(id))!
    for (const status of ['BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING'] as const) await worker.advance(task, status)
    await worker.advance(task, last)
  }
  /** The task of this deployment; others are skipped. */
  const claimOf = async (id: string): Promise<DeployTask | null> => {
    for (;;) {
      const task = await worker.claim()
      if (task === null || task.deployment_id === id) return task
    }
  }
  let task: DeployTask
  const CASES: [string, prepare: () => Promise<string>, work: (id: string) => Promise<unknown>][] = [
    ['create', async () => `n${v7()}`, name => createDeployment(deps, github(name, { secrets }))],
    ['create with a key', async () => `n${v7()}`, name => createDeployment(deps, github(name, { secrets }), name)],
    ['patch secrets, idle', deployed, id => patchDeployment(deps, id, { secrets }, '', '')],
    ['patch secrets during a rollout', fresh, id => patchDeployment(deps, id, { secrets }, '', '')],
    [
      'patch without a revision',
      fresh,
      id => patchDeployment(deps, id, { source_config: { resource_spec: { cpu: 2 } } }, '', ''),
    ],
    [
      'a third revision',
      async () => {
        const id = await fresh()
        await createRevision(deps, id, {})
        return id
      },
      id => createRevision(deps, id, {}),
    ],
    ['redeploy', deployed, async id => redeploy(deps, id, (await findDeployment(store, id))!.body.latest!)],
    [
      'interrupt',
      async () => {
        const id = await fresh()
        await createRevision(deps, id, {})
        return id
      },
      async id => interrupt(deps, id, (await findDeployment(store, id))!.body.rollout!.revision_id),
    ],
    [
      'interrupt the queued revision',
      async () => {
        const id = await fresh()
        await createRevision(deps, id, {})
        return id
      },
      async id => interrupt(deps, id, (await findDeployment(store, id))!.body.latest!),
    ],
    ['claim', fresh, id => claimOf(id)],
    [
      'cutover with a queued revision',
      async () => {
        const id = await fresh()
        await createRevision(deps, id, {})
        task = (await claimOf(id))!
        for (const status of ['BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING'] as const) await worker.advance(task, status)
        return id
      },
      () => worker.advance(task, 'DEPLOYED'),
    ],
    [
      'a failure with a queued revision',
      async () => {
        const id = await fresh()
        await createRevision(deps, id, {})
        task = (await claimOf(id))!
        await worker.advance(task, 'BUILDING')
        return id
      },
      () => worker.advance(task, 'BUILD_FAILED', { message: 'no' }),
    ],
    [
      'delete',
      async () => {
        const id = await deployed()
        await createRevision(deps, id, {})
        await createRevision(deps, id, {})
        return id
      },
      id => deleteDeployment(deps, id, true),
    ],
    ['delete without a claim', fresh, id => deleteDeployment(deps, id, false)],
    [
      'delete task',
      async () => {
        const id = await deployed()
        await deleteDeployment(deps, id, true)
        task = (await claimOf(id))!
        return id
      },
      () => worker.advance(task, 'DELETED'),
    ],
  ]
  for (const [title, prepare, work] of CASES)
    await t.test(title, async t => {
      let crashes = 0
      for (let at = 0; ; at++) {
        const id = await prepare()
        dying.crashAfter(at)
        const crashed = await work(id).then(
          () => false,
          error => {
            if (!(error instanceof Crash)) throw error
            return true
          },
        )
        dying.crashAfter(Number.POSITIVE_INFINITY)
        await sound(deps, store, id)
        if (crashed) {
          crashes++
          if (at % 2 === 1 || title.startsWith('cutover')) {
            // Another request arrives before the sweep.
            await createRevision(deps, id, {}).catch(refused)
            await sound(deps, store, id)
          }
          await swept(t, deps, store, `crash before step ${at}`)
          await promote(deps, id).catch(() => {})
          await sound(deps, store, id)
          // The caller repeats its request: it succeeds or is refused.
          await work(id).catch(refused)
        }
        await sound(deps, store, id)
        await forget(deps, id)
        if (!crashed) break
      }
      t.ok(crashes > 0, `${crashes} crashes`)
    })
  await swept(t, deps, store, 'at the end')
})

t.test('random actions of two resource workers, with crashes', async t => {
  const { store, all: both } = await stage(t, 2, store => stepwise(store))
  const kinds = ['patch', 'revise', 'redeploy', 'interrupt', 'claim', 'advance', 'expire', 'sweep', 'delete'] as const
  const step = fc.record({
    kind: fc.constantFrom(...kinds, 'advance' as const, 'advance' as const, 'claim' as const),
    worker: fc.nat(1),
    pick: fc.nat(1000),
    crash: fc.option(fc.nat(8), { freq: 4 }),
  })
  let done = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 25 }), async steps => {
      const { id } = await createDeployment(
        both[0]!,
        github(`n${v7()}`, { secrets: [{ name: 'A', value: 'a-value' }] }),
      )
      const held: DeployTask[] = []
      let epoch = 0
      for (const { kind, worker, pick, crash } of steps) {
        const deps = both[worker]!
        const dying = deps.store as Stepwise
        const asks = deployer(deps)
        const rows = await all(store, 'revision', id)
        const some = rows[pick % Math.max(1, rows.length)]
        if (some === undefined) break
        const work: { [kind in (typeof kinds)[number]]: () => Promise<unknown> } = {
          patch: () => patchDeployment(deps, id, { secrets: [{ name: 'A', value: '********' }] }, '', ''),
          revise: () => createRevision(deps, id, {}),
          redeploy: () => redeploy(deps, id, some.id),
          interrupt: () => interrupt(deps, id, some.id),
          async claim() {
            const task = await asks.claim(`w${worker}`)
            if (task?.deployment_id === id) held.push(task)
          },
          async advance() {
            const task = held[held.length - 1 - (pick % 7 === 0 ? 1 : 0)]
            if (task === undefined) return
            const now = (await findDeployment(store, id))?.body.rollout?.status
            const ways = [
              ...(REVISION[now ?? 'DEPLOYED'] ?? []),
              'DELETED',
              'DEPLOYED',
              'INTERRUPTED',
            ] as DeployAdvance['status'][]
            await asks.advance(task, ways[pick % ways.length]!)
          },
          expire: async () => ((await findDeployment(store, id)) === null ? null : age(store, id, 31_000)),
          async sweep() {
            await sweepTasks(deps)
            await sweepOrphans(deps, Date.now() + 120_000)
          },
          delete: () => (pick % 5 === 0 ? deleteDeployment(deps, id, false) : Promise.resolve()),
        }
        if (crash !== null && kind !== 'expire') dying.crashAfter(crash)
        try {
          await work[kind]()
          done++
        } catch (error) {
          if (!(error instanceof Crash) && !(error instanceof WeftError && error.status < 500)) throw error
        }
        dying.crashAfter(Number.POSITIVE_INFINITY)
        const now: Parsed<DeploymentBody> | null = await findDeployment(store, id)
        if (now === null) return
        if (now.body.epoch < epoch) throw new Error('the epoch went back')
        epoch = now.body.epoch
        await sound(both[0]!, store, id)
      }
      await forget(both[0]!, id)
    }),
    { numRuns: 80 },
  )
  t.ok(done > 200, `${done} things were done`)
})
