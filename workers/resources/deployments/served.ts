/** The view of deployments in the run plane (docs/spec/control-plane.md#run-plane). */
import { poolOf } from '../../../schemas/deploy-calls.js'
import { BUILT_IN_APP } from '../../../schemas/ids.js'
import type { Store } from '../../../store/port.js'
import type { FindServed, Served } from '../apps.js'
import type { AppSettings } from '../rows/app-settings.js'
import { type DeploymentBody, findDeployment, type Parsed, parseRow, slugKey } from './row.js'
import { isOver } from './status.js'

export const findServed =
  (store: Store, settings: AppSettings): FindServed =>
  async wanted => {
    if ('id' in wanted) {
      const found = await findDeployment(store, wanted.id)
      return found === null ? null : servedOf(found, settings)
    }
    const keys = [slugKey(wanted.slug)]
    const [row] = await store.records.list({ kind: 'deployment', app: BUILT_IN_APP, keys, limit: 1 })
    return row === undefined ? null : servedOf(parseRow<DeploymentBody>(row), settings)
  }

async function servedOf({ id, body }: Parsed<DeploymentBody>, settings: AppSettings): Promise<Served> {
  const pool = body.serving === null ? null : poolOf(body.serving.revision_id)
  return {
    deployment_id: id,
    slug: body.slug,
    state: stateOf(body),
    pool,
    graphs: body.serving?.graphs.map(({ graph_id }) => graph_id) ?? [],
    // Announced before the revision was ready, so it is stored when the revision serves.
    app_host: pool === null ? null : await settings.stored('app_host', id, pool),
  }
}

function stateOf({ status, serving, rollout, queued }: DeploymentBody): Served['state'] {
  if (status === 'AWAITING_DELETE') return 'deleting'
  if (serving !== null) return 'serving'
  return (rollout !== null && !isOver(rollout.status)) || queued !== null ? 'deploying' : 'failed'
}
