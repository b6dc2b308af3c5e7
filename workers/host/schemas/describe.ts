/**
 * Describes a graph: its drawing, the JSON Schemas of its state, and its subgraphs
 * (docs/spec/assistants.md#drawing). No run is needed; a part that cannot be derived is null.
 */
import type { DrawCall, SchemasCall, SubgraphsCall } from '../../../schemas/host.js'
import { isObject, type JsonObject } from '../../../schemas/json.js'
import type { Graph, SchemaTools } from '../library/types.js'
import type { TypeSchemas } from './extract.js'
import { MESSAGES } from './message-schema.js'
import type { StaticSchemas } from './static-schemas.js'

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

/** `types`: of TypeScript graphs; asked only for a state without runtime types. */
export async function schemas(
  { graph_id }: SchemasCall,
  graph: Described,
  tools: SchemaTools | null,
  types: StaticSchemas,
): Promise<string> {
  const derived = runtimeSchemas(graph, tools)
  const missing = derived.input === null || derived.output === null || derived.state === null
  return JSON.stringify({ graph_id, ...schemasOf(graph, derived, missing ? await types.of(graph_id) : null) })
}

/**
 * Keyed by path; the first level, or all levels below with `recurse`. The types of TypeScript name no subgraphs: a field that
 * the graph has, too, gets its type from there.
 */
export async function subgraphs(
  { graph_id, namespace, recurse }: SubgraphsCall,
  graph: Described,
  tools: SchemaTools | null,
  types: StaticSchemas,
): Promise<string> {
  const found: [string, JsonObject][] = []
  // The library finds a path below the first level only if it walks through all of them.
  const deep = recurse || namespace !== null
  const all = graph.getSubgraphsAsync?.(undefined, deep) ?? graph.getSubgraphs?.(undefined, deep) ?? []
  for await (const [path, subgraph] of all) {
    if (namespace !== null && path !== namespace && !(recurse && path.startsWith(`${namespace}|`))) continue
    const derived = runtimeSchemas(subgraph, tools)
    const above = derived.state === null ? ((await types.of(graph_id))?.state ?? null) : null
    const described = schemasOf(subgraph, derived, null, above)
    const { input_schema, output_schema, state_schema, config_schema, context_schema } = described
    const short = { state: state_schema, input: input_schema, output: output_schema, config: config_schema }
    found.push([path, { graph_id, input_schema, output_schema, state_schema, config_schema, context_schema, ...short }])
  }
  return JSON.stringify(Object.fromEntries(found))
}

/** The schema from zod or StateSchema; null: there is none. */
function runtimeSchemas(graph: Described, tools: SchemaTools | null): TypeSchemas {
  const derive = (read: ((graph: unknown) => Schema | undefined) | undefined): Schema => {
    try {
      return read?.(graph) ?? null
    } catch (error) {
      // A schema that cannot be derived does not hide the others.
      console.warn('a schema of a graph cannot be derived:', error)
      return null
    }
  }
  return {
    input: derive(tools?.getInputTypeSchema),
    output: derive(tools?.getOutputTypeSchema),
    state: derive(tools?.getStateTypeSchema),
    config: derive(tools?.getConfigTypeSchema),
  }
}

/** From runtime types, else from types of TypeScript, else the names of the channels. `above`: the state of the graph above. */
function schemasOf(graph: Described, derived: TypeSchemas, types: TypeSchemas | null, above: Schema = null) {
  const channels = channelSchema(graph, above)
  const config = derived.config ?? types?.config ?? null
  return {
    input_schema: derived.input ?? types?.input ?? channels,
    output_schema: derived.output ?? types?.output ?? channels,
    state_schema: derived.state ?? types?.state ?? channels,
    config_schema: config,
    context_schema: config,
  }
}

/**
 * For a state without runtime types (Annotation): the names of its channels, the channels that hold messages, and the types
 * of those that the graph above has, too.
 */
function channelSchema({ channels, builder }: Described, above: Schema): JsonObject {
  const names = isObject(builder?._schemaDefinition) ? Object.keys(builder._schemaDefinition) : Object.keys(channels)
  const known = isObject(above?.properties) ? above.properties : {}
  const properties: JsonObject = {}
  for (const name of names) {
    if (name.startsWith('__') || name.startsWith('branch:')) continue
    const { operator } = (channels[name] ?? {}) as { operator?: { name?: string } }
    properties[name] = /^(messagesStateReducer|addMessages|_addMessages)$/.test(operator?.name ?? '')
      ? MESSAGES
      : (known[name] ?? {})
  }
  const definitions = above?.definitions === undefined ? {} : { definitions: above.definitions }
  return { $schema: 'http://json-schema.org/draft-07/schema#', type: 'object', properties, ...definitions }
}

const pick = (from: JsonObject, names: readonly string[]): JsonObject =>
  Object.fromEntries(names.filter(name => from[name] !== undefined).map(name => [name, from[name]]))
