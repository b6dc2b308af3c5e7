/** Agents that may use a token of a user as if that was their own (docs/spec/oauth.md#agent-connections). */
import { v7 } from 'uuid'
import type { CallHead } from '../../../schemas/calls.js'
import { fail } from '../../../schemas/errors.js'
import { time } from '../../../schemas/json.js'
import type { Connection, ConnectionCreate } from '../../../schemas/oauth.js'
import type { RecordRow } from '../../../store/rows/records.js'
import type { Deps } from '../context.js'
import { pathIds } from '../query.js'
import { each, newRecord } from '../rows/record.js'
import { findToken } from './refresh.js'
import { agentKey, CONNECTION, callerOf, owns, parse, type Row, summaryOf, type TokenBody } from './rows.js'
import { ownToken } from './tokens.js'

interface ConnectionBody {
  agent_id: string
  created_by: string
}

export async function list(deps: Deps, head: CallHead): Promise<{ data: Connection[] }> {
  const agent_id = agentOf(head)
  const caller = callerOf(head)
  const data: Connection[] = []
  for await (const row of each(deps.store, { kind: CONNECTION, keys: [agentKey(agent_id)] })) {
    const token = await findToken(deps, row.parent)
    if (token !== null && owns(caller, token.body)) data.push(connectionOut(row, token))
  }
  return { data }
}

/** Only with the key that obtained the token. A second one for the same token answers the first. */
export async function create(deps: Deps, { oauth_token_id }: ConnectionCreate, head: CallHead): Promise<Connection> {
  const agent_id = agentOf(head)
  const token = await ownToken(deps, head, oauth_token_id.toLowerCase())
  const body: ConnectionBody = { agent_id, created_by: callerOf(head) }
  const name = `${agentKey(agent_id)} ${token.row.id}`
  const row = newRecord(CONNECTION, v7(), {
    parent: token.row.id,
    name,
    keys: [agentKey(agent_id)],
    body: JSON.stringify(body),
  })
  if ((await deps.store.apply([{ step: 'records.insert', row }])) === -1) return connectionOut(row, token)
  const known = await deps.store.records.named(CONNECTION, row.app, name)
  return connectionOut(known ?? row, token)
}

export async function remove(deps: Deps, head: CallHead): Promise<void> {
  const [id] = pathIds(head.params, 'connection_id')
  const row = await deps.store.records.get(CONNECTION, id!)
  const token = row === null ? null : await findToken(deps, row.parent)
  const isOwn = row !== null && parse<ConnectionBody>(row).body.agent_id === agentOf(head)
  if (!isOwn || token === null || !owns(callerOf(head), token.body))
    throw fail('not_found', `Connection ID ${id} not found.`)
  await deps.store.apply([{ step: 'records.remove', kind: CONNECTION, id: id!, where: {} }])
}

const agentOf = ({ params }: CallHead): string => params?.agent_id ?? ''

function connectionOut(row: RecordRow, token: Row<TokenBody>): Connection {
  const { agent_id, created_by } = parse<ConnectionBody>(row).body
  const { provider_id, provider_account_label, scopes, expires_at } = summaryOf(token)
  return {
    id: row.id,
    agent_id,
    oauth_token_id: token.row.id,
    provider_id,
    provider_account_label,
    scopes,
    expires_at,
    created_by,
    created_at: time(row.created_at),
  }
}
