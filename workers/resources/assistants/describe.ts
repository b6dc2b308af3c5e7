/**
 * How the graph of an assistant is drawn, its schemas and subgraphs: a host without runs answers, with the config of the
 * assistant, because a factory may make another graph of it. Answers are cached until the application changes.
 */
import type { Reply } from '../../../bus/serve.js'
import type { CallHead } from '../../../schemas/calls.js'
import { fail } from '../../../schemas/errors.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import type { DrawCall, SchemasCall, SubgraphsCall } from '../../../schemas/host.js'
import { type JsonObject, merge, type Config as RunConfig } from '../../../schemas/json.js'
import { isTrue, readBoolean } from '../../../schemas/query.js'
import type { AssistantRow } from '../../../store/rows/assistants.js'
import type { Deps } from '../context.js'
import { withoutAuth } from '../runs/payload.js'
import { askHost } from '../state/ask-graph.js'

type Given = 'graph_id' | 'thread_id' | 'config'
type Question = Omit<DrawCall, Given> | Omit<SchemasCall, Given> | Omit<SubgraphsCall, Given>

/** `headers`: of the request, for graphs that are made by a function (docs/spec/application.md#headers). */
export async function describe(
  deps: Deps,
  row: AssistantRow,
  question: Question,
  headers?: CallHead['headers'],
): Promise<Reply> {
  const { app, graph_id } = row
  const own = parseJson(row.config) as RunConfig
  // Nobody is authenticated here: neither an assistant nor a header may say so.
  const configurable = withoutAuth(merge(headers, own.configurable))
  const has = own.configurable !== undefined || Object.keys(configurable).length > 0
  const config: JsonObject = { ...own, ...(has ? { configurable } : {}), context: parseJson(row.context) }
  const key = jsonText([graph_id, config, question])
  const body = await deps.descriptions.get(app, deps.apps.generation(app), key, () =>
    askHost(deps, { app, thread_id: '', graph_id, config }, question),
  )
  return { body }
}

/**
 * The bundle of a user interface: packed UiHead and the files. Most have the name of a graph, but any name of `ui` is served.
 * Throws not_found when there is none.
 */
export async function userInterface(deps: Deps, app: string, graph_id: string): Promise<Reply> {
  const key = jsonText(['ui', graph_id])
  const body = await deps.descriptions.get(app, deps.apps.generation(app), key, () =>
    askHost(deps, { app, thread_id: '', graph_id }, { verb: 'ui' }),
  )
  return { body }
}

/** `xray`: a boolean in any of its forms, or the depth. Throws `invalid`. */
export function drawingIn({ query }: CallHead): Omit<DrawCall, Given> {
  const text = new URLSearchParams(query).get('xray')?.trim() ?? ''
  if (/^(true|false|yes|no)?$/i.test(text)) return { verb: 'draw', xray: isTrue(text) }
  if (/^\d{1,3}$/.test(text)) return { verb: 'draw', xray: Number(text) }
  throw fail('invalid', `xray: expected true, false or a depth, got "${text.slice(0, 80)}"`)
}

export const subgraphsIn = ({ query, params }: CallHead): Omit<SubgraphsCall, Given> => ({
  verb: 'subgraphs',
  namespace: params?.namespace || null,
  recurse: readBoolean(new URLSearchParams(query), 'recurse'),
})
