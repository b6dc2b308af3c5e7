/** `store.path` and `checkpointer.path` of langgraph.json: a store and a checkpointer that the application brings. */
import type { tags } from 'typia'
import { AppConfigError, exportOf, type GraphSource } from './description.js'
import type { ItemTtlDefaults } from './items/items.js'
import type { JsonObject } from './json.js'
import type { TtlDefaults } from './threads.js'

type ExportPath = string & tags.MinLength<1>

export interface StoreSection<Index> {
  ttl?: ItemTtlDefaults
  index?: Index
  path?: ExportPath
}

export interface CheckpointerSection {
  ttl?: TtlDefaults
  serde?: JsonObject
  path?: ExportPath
  backend?: string
}

/** Other servers name the export of a module of Python behind a dot, too: `package.module.export`. */
const exportIn = (path: string): string =>
  path.includes(':') || exportOf(path, '/').module === null ? path : path.replace(/\.(\w+)$/, ':$1')

/** What `store` says, and a sentence for each setting of the store of Weft that has no effect beside `store.path`. */
export function storeOf<Index>(file: string, { ttl, index, path }: StoreSection<Index> = {}) {
  if (path === undefined) return { store: null, item_ttl: ttl ?? null, index: index ?? null, notes: [] }
  const notes = Object.entries({ ttl, index }).flatMap(([key, value]) =>
    value === undefined
      ? []
      : [`${file}: store.${key} has no effect: items are in the store of store.path, which has settings of its own.`],
  )
  return { store: exportIn(path), item_ttl: null, index: null, notes }
}

/**
 * The checkpointer that gets copies, and sentences about it; null without graphs in Python, whose hosts alone open it. Throws
 * an AppConfigError for `backend: "custom"` without a path.
 */
export function checkpointerOf(
  file: string,
  { path, backend = 'default' }: CheckpointerSection = {},
  graphs: readonly GraphSource[],
): { checkpointer: string | null; notes: string[] } {
  if (path === undefined) {
    if (backend === 'custom')
      throw new AppConfigError(`${file}: checkpointer.path must name the checkpointer of "backend": "custom".`)
    return { checkpointer: null, notes: backend === 'default' ? [] : [`${file}: ${NO_BACKEND}`] }
  }
  const languages = new Set(graphs.map(({ language }) => language))
  const checkpointer = exportIn(path)
  if (exportOf(checkpointer, '/').language !== 'python' || !languages.has('python'))
    return { checkpointer: null, notes: [`${file}: checkpointer.path has no effect: ${ONLY_PYTHON}.`] }
  const others = languages.has('javascript') ? ` ${ONLY_PYTHON[0]!.toUpperCase()}${ONLY_PYTHON.slice(1)}.` : ''
  return { checkpointer, notes: [`${file}: checkpointer.path: ${checkpointer} ${COPIES}${others}`] }
}

const NO_BACKEND =
  'checkpointer.backend has no effect: checkpoints are in the store of Weft, which DATABASE_URI or MONGODB_URL may name.'
const ONLY_PYTHON = 'only checkpoints of graphs in Python are copied, to a checkpointer in Python'
const COPIES =
  'gets a copy of each checkpoint of a thread, and Weft reads none of them: states, histories, forks and runs that continue are those of its own store. Copies and prunes of threads do not reach it.'
