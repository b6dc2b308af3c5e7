/** The one organisation and workspace of this server. */
import { v7 } from 'uuid'
import type { Store } from '../../store/port.js'
import { onceInStore } from './rows/record.js'

export interface Workspace {
  tenant_id: string
  organization_id: string
}

/** The ids of the one organisation and workspace, made at the first start on the store. */
export const workspaceOf = async (store: Store): Promise<Workspace> =>
  (await onceInStore(store, 'workspace', () => ({ tenant_id: v7(), organization_id: v7() }))).value
