/** The view of deployments in the run plane (docs/spec/control-plane.md#run-plane). */
import type { AppHostSettings } from '../../../schemas/app-host.js'
import { poolOf } from '../../../schemas/deploy-calls.js'
import { BUILT_IN_APP } from '../../../schemas/ids.js'
import type { Store } from '../../../store/port.js'
import type { FindServed, Served } from '../apps.js'
import type { PoolSettings } from '../rows/pool-settings.js'
import { type DeploymentBody, findDeployment, type Parsed, parseRow, slugKey } from './row.js'
import { isOver } from './status.js'

/** `hosts`: what the graph workers of each pool announced about their app host. */
export const findServed =
  (store: Store, hosts: PoolSettings<AppHostSettings>): FindServed =>
  async wanted => {
    if ('id' in wanted) {
      const found = await findDeployment(store, wanted.id)
      return found === null ? null : servedOf(found, hosts)
    }
    const keys = [slugKey(wanted.slug)]
    const [row] = await store.records.list({ kind: 'deployment', app: BUILT_IN_APP, keys, limit: 1 })
    return row === undefined ? null : servedOf(parseRow<DeploymentBody>(row), hosts)
  }

async function servedOf({ id, body }: Parsed<DeploymentBody>, hosts: PoolSettings<AppHostSettings>): Promise<Served> {
  const pool = body.serving === null ? null : poolOf(body.serving.revision_id)
  return {
    deployment_id: id,
    slug: body.slug,
    state: stateOf(body),
    pool,
    graphs: body.serving?.graphs.map(({ graph_id }) => graph_id) ?? [],
    // Announced before the revision was ready, so it is stored when the revision serves.
    app_host: pool === null ? null : await hosts.stored(id, pool),
  }
}

function stateOf({ status, serving, rollout, queued }: DeploymentBody): Served['state'] {
  if (status === 'AWAITING_DELETE') return 'deleting'
  if (serving !== null) return 'serving'
  return (rollout !== null && !isOver(rollout.status)) || queued !== null ? 'deploying' : 'failed'
}
