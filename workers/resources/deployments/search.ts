/** Lists of deployments and of revisions (API: control-plane 2.3, 6.2, 6.5): filters, then offset, then limit. */
import {
  DEPLOYMENT_STATUSES,
  type DeploymentStatus,
  type DeploymentType,
  REVISION_STATUSES,
} from '../../../schemas/deployments.js'
import { BUILT_IN_APP } from '../../../schemas/ids.js'
import type { RecordRow, Store } from '../../../store/port.js'
import { each } from '../rows/record.js'
import { openQuery, type Page } from './query.js'
import { type DeploymentBody, isUncommitted, type Parsed, parseRow, type RevisionBody, standingOf } from './row.js'

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

/** The page of deployments that the query asks for, newest first. Throws InvalidFields. */
export async function searchDeployments(store: Store, text: string | undefined) {
  const filter = filterOf(text)
  // Nothing has tags yet, so no value of one matches.
  if (filter.tag_value_ids !== null) return { rows: [], offset: filter.offset }
  const keys = [
    ...(filter.status === null ? [] : [`status=${filter.status}`]),
    ...(filter.deployment_type === null ? [] : [`deployment_type=${filter.deployment_type}`]),
    ...(filter.remote_reconciled === true ? ['remote'] : []),
  ]
  const all =
    filter.deployment_ids === null
      ? each(store, { kind: 'deployment', app: BUILT_IN_APP, keys })
      : some(store, filter.deployment_ids)
  return page(all, row => matches(parseRow<DeploymentBody>(row), filter), filter)
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

function matches({ id, name, body }: Parsed<DeploymentBody>, filter: Filter): boolean {
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

/** The page of a deployment's revisions that the query asks for, newest first. Throws InvalidFields. */
export async function searchRevisions(store: Store, deployment: Parsed<DeploymentBody>, text: string | undefined) {
  const query = openQuery(text)
  const wanted = query.page()
  const statuses = query.someOf('status', REVISION_STATUSES)
  const remote = query.flag('remote_reconciled')
  query.done()
  const { body } = deployment
  if (remote !== null && remote !== (body.source_config.listener_id !== null))
    return { rows: [], offset: wanted.offset }
  const fits = (row: RecordRow) =>
    !isUncommitted(row, body) && (statuses === null || statuses.includes(standingOf(parseRow<RevisionBody>(row), body)))
  return page(each(store, { kind: 'revision', parent: deployment.id }), fits, wanted)
}

/** Skips `offset` of those that fit, takes `limit`; `offset` of the answer is where the next page begins. */
async function page(rows: AsyncIterable<RecordRow>, fits: (row: RecordRow) => boolean, { limit, offset }: Page) {
  const found: RecordRow[] = []
  let skipped = 0
  for await (const row of rows) {
    if (!fits(row)) continue
    if (skipped < offset) skipped++
    else if (found.push(row) === limit) break
  }
  return { rows: found, offset: offset + found.length }
}

async function* some(store: Store, ids: readonly string[]): AsyncIterable<RecordRow> {
  const found = await Promise.all([...new Set(ids)].map(id => store.records.get('deployment', id)))
  yield* found.filter(row => row !== null).sort((a, b) => b.created_at - a.created_at || (a.id < b.id ? 1 : -1))
}
