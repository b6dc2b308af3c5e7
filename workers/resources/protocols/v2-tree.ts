/**
 * The graphs of a run (docs/spec/protocol-v2.md#commands): the root graph and the subgraphs that it started, read
 * from the lifecycle events of the run while its stream is stored. A run without such events has the root only.
 */
import { parseLarge } from '../../../bus/decode.js'
import { openFollower } from '../../../bus/follow.js'
import { token } from '../../../schemas/ids.js'
import type { JsonObject } from '../../../schemas/json.js'
import { framesOf, type Namespace, readTag } from '../../../schemas/protocols/v2.js'
import type { RunSummary } from '../../../store/rows/runs.js'
import type { Deps } from '../context.js'

export type AgentStatus = 'started' | 'running' | 'completed' | 'failed' | 'interrupted'

interface AgentNode {
  namespace: Namespace
  status: AgentStatus
  graph_name: string
  children?: AgentNode[]
}

const ENDED: readonly AgentStatus[] = ['completed', 'failed', 'interrupted']

/** `status` is that of the run. Children are in the order of their start. */
export async function treeOf({ link, mux }: Deps, run: RunSummary, status: AgentStatus): Promise<AgentNode> {
  const graphs = new Map<string, AgentNode>()
  if (run.mode === 'events') {
    const { resumable, resumable_until_id: until } = run
    const from = { pool: token<'pool'>('pool', run.pool), resumable, after: -1, until }
    await openFollower(link, mux).replay(token('run', run.run_id), from, ({ bytes, v2 }) => {
      if (v2) for (const { tag, frame } of framesOf(bytes)) addEvent(graphs, tag, frame)
    })
  }
  const root: AgentNode = { namespace: [], status, graph_name: run.graph_id }
  for (const node of graphs.values()) {
    // Its host died before it reported the end.
    if (ENDED.includes(status) && !ENDED.includes(node.status)) node.status = status
    const parent = graphs.get(keyOf(node.namespace.slice(0, -1))) ?? root
    parent.children = [...(parent.children ?? []), node]
  }
  return root
}

const keyOf = (namespace: Namespace): string => namespace.join('|')

function addEvent(graphs: Map<string, AgentNode>, tag: string, frame: Uint8Array): void {
  const read = readTag(tag)
  if (read?.channel !== 'lifecycle') return
  const { namespace } = read
  const { event, graph_name } = dataIn(frame)
  // A new attempt: subgraphs of the earlier one have no end, and repeated ones have the same name.
  if (namespace.length === 0 && event === 'running') {
    for (const [key, { status }] of graphs) if (!ENDED.includes(status)) graphs.delete(key)
  } else if (namespace.length > 0)
    graphs.set(keyOf(namespace), { namespace, status: event as AgentStatus, graph_name: String(graph_name) })
}

function dataIn(frame: Uint8Array): JsonObject {
  const text = Buffer.from(frame.buffer, frame.byteOffset, frame.length).toString()
  const { params } = parseLarge<{ params: { data: JsonObject } }>(text.slice(text.indexOf('\ndata: ') + 7))
  return params.data
}
