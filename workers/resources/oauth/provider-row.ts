/** The record of an OAuth provider. */
import { fail } from '../../../schemas/errors.js'
import { BUILT_IN_APP } from '../../../schemas/ids.js'
import type { Provider } from '../../../schemas/providers.js'
import type { Store } from '../../../store/port.js'
import type { RecordRow } from '../../../store/rows/records.js'
import type { Row } from './rows.js'

export const PROVIDER = 'provider'

export interface ProviderBody
  extends Omit<Provider, 'id' | 'organization_id' | 'provider_id' | 'created_at' | 'updated_at'> {
  /** Encrypted, bound to `secretPlace`; null: a public client. */
  client_secret: string | null
}

/** Throws not_found. */
export async function findProvider(store: Store, provider_id: string): Promise<Row<ProviderBody>> {
  const row = await store.records.named(PROVIDER, BUILT_IN_APP, provider_id)
  if (row === null) throw fail('not_found', `OAuth provider ID ${provider_id} not found.`)
  return parseProvider(row)
}

/** The provider of a flow or a token, by the `parent` of its record; null: it was deleted. */
export async function providerOf(store: Store, { parent }: RecordRow): Promise<Row<ProviderBody> | null> {
  const row = await store.records.get(PROVIDER, parent)
  return row === null ? null : parseProvider(row)
}

export const parseProvider = (row: RecordRow): Row<ProviderBody> => ({
  row,
  body: { ...LATER, ...(JSON.parse(row.body) as ProviderBody) },
})

/** Members that records of earlier versions lack. */
const LATER = { issuer: null, revocation_url: null, mcp_server_url: null, is_dynamic_client: false }
