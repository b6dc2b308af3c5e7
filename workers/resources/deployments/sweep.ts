import type { RecordRow } from '../../../store/port.js'
import type { Deps } from '../context.js'
import { type DeploymentBody, type Flight, known, orderOf } from './row.js'
import { PATIENCE } from './status.js'
import { BATCH, gone, promote } from './tasks.js'
import { change, settled, wakeDeployers } from './write.js'

/** What lost its worker, or its wake-up: every order that nobody holds is announced again; who waited too long fails. */
export async function sweepOrders(deps: Deps): Promise<void> {
  const now = Date.now()
  // One that cannot be helped must not keep the others waiting.
  for (const row of await deps.store.records.due('deployment', now, BATCH))
    await sweepOne(deps, row, now).catch(error =>
      deps.link.log.warn({ err: error, deployment_id: row.id }, 'a deployment could not be swept'),
    )
}

const isFree = ({ lease }: DeploymentBody, now: number): boolean => lease === null || lease.until <= now

async function sweepOne(deps: Deps, row: RecordRow, now: number): Promise<void> {
  const { body } = known<DeploymentBody>(row)
  const { flight } = body
  const limit = flight === null ? undefined : PATIENCE[flight.status]
  if (flight !== null && limit !== undefined && isFree(body, now) && flight.since + limit.ms < now) {
    const message = `no deploy worker took it within ${limit.ms / 60_000} minutes: is one running for source ${body.source}?`
    await change(deps, row.id, async ({ body }) => {
      if (body.flight?.revision_id !== flight.revision_id || body.flight.status !== flight.status) return null
      if (!isFree(body, now)) return null
      const over: Flight = { ...body.flight, status: limit.to, since: now, message }
      return { body: { ...body, flight: over, lease: null }, after: await settled(deps.store, over), visible: true }
    }).catch(gone)
  }
  await promote(deps, row.id)
  const order = orderOf(body)
  if (order !== null) wakeDeployers(deps, order, row.id, body.latest)
}

/** Revisions, secrets and projects that were inserted for a change that was never made. */
export async function sweepOrphans({ store }: Deps, now = Date.now()): Promise<void> {
  for (const kind of ['revision', 'secrets', 'project'] as const)
    for (const row of await store.records.due(kind, now, BATCH)) {
      const owner = await store.records.get('deployment', kind === 'project' ? row.id : row.parent)
      const body = owner === null ? null : known<DeploymentBody>(owner).body
      const wanted =
        body !== null && (kind === 'project' || (kind === 'revision' ? body.latest : body.secrets) === row.id)
      await store.apply([
        wanted
          ? { step: 'records.patch', kind, id: row.id, where: { rev: row.rev }, set: { due_at: null } }
          : { step: 'records.remove', kind, id: row.id, where: { rev: row.rev } },
      ])
    }
}
