/** Brings one assistant with its versions. */
import type { Assistant } from '../../../schemas/assistants.js'
import type { Client } from '../client.js'
import type { Source } from './sources/source.js'

/** The default assistant of a graph exists here as soon as the graph is served, under the same id. */
export async function bringAssistant(from: Source, to: Client, row: Assistant): Promise<{ note?: string }> {
  if (row.metadata?.created_by === 'system') return {}
  const { assistant_id, version: active } = row
  const path = `/assistants/${assistant_id}`
  const versions = await from.versions(assistant_id)
  const [first = row, ...later] = versions.sort((a, b) => a.version - b.version)
  const made = await to.ask<Assistant>('POST', '/assistants', {
    body: { ...settingsOf(first), assistant_id, if_exists: 'do_nothing' },
    patient: true,
  })
  // An import that was stopped has made some of them.
  const here = await to.ask<Assistant[]>('POST', `${path}/versions`, { body: { limit: 1_000 }, patient: true })
  for (const version of later.slice(here.length - 1))
    await to.ask('PATCH', path, { body: settingsOf(version), patient: true })
  const position = [first, ...later].findIndex(({ version }) => version === active)
  if (position !== -1 && (later.length > 0 || made.version !== position + 1))
    await to.ask('POST', `${path}/latest`, { body: { version: position + 1 }, patient: true })
  return first.version > 1 ? { note: 'versions are numbered from 1' } : {}
}

const settingsOf = ({ graph_id, name, description, config, context, metadata }: Assistant) => ({
  graph_id,
  ...(name ? { name } : {}),
  ...(description ? { description } : {}),
  config: config ?? {},
  ...(context ? { context } : {}),
  metadata: metadata ?? {},
})
