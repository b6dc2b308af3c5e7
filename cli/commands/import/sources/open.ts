/** Opens the source that a person names: a URL, a folder, or a file. */
import { existsSync } from 'node:fs'
import { UserError } from '../../../user-error.js'
import { openClient } from '../../client.js'
import { databaseSource, isPostgres } from './database.js'
import { folderSource, isFolder } from './folder.js'
import { serverSource } from './server.js'
import type { Source } from './source.js'

export interface SourceFlags {
  sourceKey?: string
  sourceHeader: string[]
  graph?: string
}

/** Throws a UserError when `given` names no source, or when the source does not answer. */
export async function openSource(given: string, flags: SourceFlags, target: string): Promise<Source> {
  const headers = Object.fromEntries(flags.sourceHeader.map(headerOf))
  const key = flags.sourceKey ? { key: flags.sourceKey } : {}
  const open = (url: string) => openClient({ url, ...key }, { headers, isSource: true, exact: true })
  if (isPostgres(given)) return databaseSource(given, flags.graph)
  if (!/^[a-z]+:\/\//i.test(given) && existsSync(given))
    return isFolder(given) ? folderSource(given, open) : databaseSource(given, flags.graph)
  const from = open(given)
  if (from.url === target) throw new UserError(`${from.url} is the source and the target: name another --url`, 2)
  await from.ask('POST', '/assistants/search', { body: { limit: 1 } })
  return serverSource(from)
}

function headerOf(text: string): [string, string] {
  const [, name, value] = /^([\w-]+):\s*(.+)$/.exec(text) ?? []
  if (name === undefined || value === undefined)
    throw new UserError(`--source-header must be as "Authorization: Bearer …", not "${text}"`, 2)
  return [name, value]
}
