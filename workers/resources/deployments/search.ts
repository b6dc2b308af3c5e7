/** Searches of deployments and revisions (docs/spec/control-plane.md#lists): filters, then offset, then limit. */
import {
  DEPLOYMENT_STATUSES,
  type DeploymentStatus,
  type DeploymentType,
  REVISION_STATUSES,
} from '../../../schemas/deployments.js'
import { BUILT_IN_APP } from '../../../schemas/ids.js'
import type { Store } from '../../../store/port.js'
import type { RecordRow } from '../../../store/rows/records.js'
import { openQuery, type Page } from '../query.js'
import { each, readPage } from '../rows/record.js'
import { type DeploymentBody, isUncommitted, type Parsed, parseRow, type RevisionBody, statusOf } from './row.js'

interface Filter extends Page {
  name_contains: string | null
  name: string | null
  status: DeploymentStatus | null
  remote_reconciled: boolean | null
  tag_value_ids: string[] | null
  image_version: string | null
  deployment_type: DeploymentType | null
  deployment_ids: string[] | null
}

/** A page of deployments, newest first. Throws InvalidFields. */
export async function searchDeployments(store: Store, text: string | undefined) {
  const filter = filterOf(text)
  // Deployments have no tags yet, so no value matches.
  if (filter.tag_value_ids !== null) return { rows: [], offset: filter.offset }
  const keys = [
    ...(filter.status === null ? [] : [`status=${filter.status}`]),
    ...(filter.deployment_type === null ? [] : [`deployment_type=${filter.deployment_type}`]),
    ...(filter.remote_reconciled === true ? ['remote'] : []),
  ]
  const all =
    filter.deployment_ids === null
      ? each(store, { kind: 'deployment', app: BUILT_IN_APP, keys })
      : getByIds(store, filter.deployment_ids)
  return readPage(all, row => matchesFilter(parseRow<DeploymentBody>(row), filter), filter)
}

function filterOf(text: string | undefined): Filter {
  const query = openQuery(text)
  const filter: Filter = {
    ...query.page(),
    name_contains: query.text('name_contains')?.toLowerCase() ?? null,
    name: query.text('name'),
    status: query.oneOf('status', DEPLOYMENT_STATUSES),
    remote_reconciled: query.flag('remote_reconciled'),
    tag_value_ids: query.ids('tag_value_ids'),
    image_version: query.text('image_version'),
    deployment_type: query.oneOf('deployment_type', ['dev_free', 'dev', 'prod']),
    deployment_ids: query.ids('deployment_ids'),
  }
  query.done()
  return filter
}

function matchesFilter({ id, name, body }: Parsed<DeploymentBody>, filter: Filter): boolean {
  return (
    (filter.name_contains === null || name!.toLowerCase().includes(filter.name_contains)) &&
    (filter.name === null || name === filter.name) &&
    (filter.status === null || body.status === filter.status) &&
    (filter.remote_reconciled === null || filter.remote_reconciled === (body.source_config.listener_id !== null)) &&
    (filter.image_version === null || body.image_version === filter.image_version) &&
    (filter.deployment_type === null || body.source_config.deployment_type === filter.deployment_type) &&
    (filter.deployment_ids === null || filter.deployment_ids.includes(id))
  )
}

/** A page of the revisions of a deployment, newest first. Throws InvalidFields. */
export async function searchRevisions(store: Store, deployment: Parsed<DeploymentBody>, text: string | undefined) {
  const query = openQuery(text)
  const wanted = query.page()
  const statuses = query.someOf('status', REVISION_STATUSES)
  const remote = query.flag('remote_reconciled')
  query.done()
  const { body } = deployment
  if (remote !== null && remote !== (body.source_config.listener_id !== null))
    return { rows: [], offset: wanted.offset }
  const matchesQuery = (row: RecordRow) =>
    !isUncommitted(row, body) && (statuses === null || statuses.includes(statusOf(parseRow<RevisionBody>(row), body)))
  return readPage(each(store, { kind: 'revision', parent: deployment.id }), matchesQuery, wanted)
}

async function* getByIds(store: Store, ids: readonly string[]): AsyncIterable<RecordRow> {
  const found = await Promise.all([...new Set(ids)].map(id => store.records.get('deployment', id)))
  yield* found.filter(row => row !== null).sort((a, b) => b.created_at - a.created_at || (a.id < b.id ? 1 : -1))
}
