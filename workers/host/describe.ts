/**
 * Describes a graph: its drawing, the JSON Schemas of its state, and its subgraphs (API: assistants-crons-store 2.5 to
 * 2.7). No run is needed; a part that cannot be derived is null.
 */
import type { DrawCall, SchemasCall, SubgraphsCall } from '../../schemas/host.js'
import { isObject, type JsonObject } from '../../schemas/json.js'
import type { Graph } from './application.js'
import type { SchemaTools } from './loading.js'

type Schema = JsonObject | null

interface Drawable {
  toJSON(): { nodes: JsonObject[]; edges: JsonObject[] }
}

/** The members of a graph that are used here besides running it; older libraries lack some of them. */
type Described = Graph & {
  getGraphAsync?(config: JsonObject): Promise<Drawable>
  getGraph?(config: JsonObject): Drawable
  getSubgraphsAsync?(namespace?: string, recurse?: boolean): AsyncIterable<[string, Described]>
  getSubgraphs?(namespace?: string, recurse?: boolean): Iterable<[string, Described]>
  builder?: { _schemaDefinition?: unknown }
}

/** `xray`: the depth to which subgraphs are drawn; true: all of them. */
export async function draw({ config, xray }: DrawCall, graph: Described): Promise<string> {
  const options = { ...config, xray }
  const drawable = graph.getGraphAsync ? await graph.getGraphAsync(options) : graph.getGraph!(options)
  const { nodes, edges } = drawable.toJSON()
  return JSON.stringify({
    nodes: nodes.map(node => pick(node, ['id', 'type', 'data', 'metadata'])),
    // The Python client passes the members of an edge as arguments and accepts no others.
    edges: edges.map(edge => pick(edge, ['source', 'target', 'data', 'conditional'])),
  })
}

export function schemas({ graph_id }: SchemasCall, graph: Described, tools: SchemaTools | null): string {
  return JSON.stringify({ graph_id, ...schemasOf(graph, tools) })
}

/** Keyed by path; the first level, or all levels below with `recurse`. */
export async function subgraphs(
  { graph_id, namespace, recurse }: SubgraphsCall,
  graph: Described,
  tools: SchemaTools | null,
): Promise<string> {
  const found: [string, JsonObject][] = []
  // The library finds a path below the first level only if it walks through all of them.
  const deep = recurse || namespace !== null
  const all = graph.getSubgraphsAsync?.(undefined, deep) ?? graph.getSubgraphs?.(undefined, deep) ?? []
  for await (const [path, subgraph] of all) {
    if (namespace !== null && path !== namespace && !(recurse && path.startsWith(`${namespace}|`))) continue
    const { input_schema, output_schema, state_schema, config_schema, context_schema } = schemasOf(subgraph, tools)
    const short = { state: state_schema, input: input_schema, output: output_schema, config: config_schema }
    found.push([path, { graph_id, input_schema, output_schema, state_schema, config_schema, context_schema, ...short }])
  }
  return JSON.stringify(Object.fromEntries(found))
}

function schemasOf(graph: Described, tools: SchemaTools | null) {
  const derive = (read: ((graph: unknown) => Schema | undefined) | undefined): Schema => {
    try {
      return read?.(graph) ?? null
    } catch (error) {
      // A schema that cannot be derived does not hide the others.
      console.warn('a schema of a graph cannot be derived:', error)
      return null
    }
  }
  const channels = channelSchema(graph)
  const config = derive(tools?.getConfigTypeSchema)
  return {
    input_schema: derive(tools?.getInputTypeSchema) ?? channels,
    output_schema: derive(tools?.getOutputTypeSchema) ?? channels,
    state_schema: derive(tools?.getStateTypeSchema) ?? channels,
    config_schema: config,
    context_schema: config,
  }
}

/** For a state without runtime types (Annotation): the names of its channels, and the channels that hold messages. */
function channelSchema({ channels, builder }: Described): JsonObject {
  const names = isObject(builder?._schemaDefinition) ? Object.keys(builder._schemaDefinition) : Object.keys(channels)
  const properties: JsonObject = {}
  for (const name of names) {
    if (name.startsWith('__') || name.startsWith('branch:')) continue
    const { operator } = (channels[name] ?? {}) as { operator?: { name?: string } }
    properties[name] = /^(messagesStateReducer|addMessages|_addMessages)$/.test(operator?.name ?? '')
      ? { type: 'array', langgraph_type: 'messages', description: 'A list of chat messages' }
      : {}
  }
  return { $schema: 'http://json-schema.org/draft-07/schema#', type: 'object', properties }
}

const pick = (from: JsonObject, names: readonly string[]): JsonObject =>
  Object.fromEntries(names.filter(name => from[name] !== undefined).map(name => [name, from[name]]))
