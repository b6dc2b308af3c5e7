/** The one organisation and workspace of this server. */
import { v7 } from 'uuid'
import type { Store } from '../../store/port.js'
import { newRecord } from './rows/record.js'

export interface Workspace {
  tenant_id: string
  organization_id: string
}

/** The ids of the one organisation and workspace, made at the first start of the store. */
export async function workspaceOf(store: Store): Promise<Workspace> {
  const found = await store.records.get('setting', 'workspace')
  if (found !== null) return JSON.parse(found.body) as Workspace
  const made: Workspace = { tenant_id: v7(), organization_id: v7() }
  const row = newRecord('setting', 'workspace', { body: JSON.stringify(made) })
  return (await store.apply([{ step: 'records.insert', row }])) === -1 ? made : workspaceOf(store)
}
