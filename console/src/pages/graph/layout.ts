/** Where the nodes and edges of a drawing are. */
import { Graph, layout } from '@dagrejs/dagre'
import { type Folded, nameIn, parentOf } from './fold'

export interface Placed {
  width: number
  height: number
  nodes: { id: string; name: string; x: number; y: number; width: number; isEnd: boolean }[]
  /** Around the nodes of a subgraph. */
  boxes: { id: string; name: string; x: number; y: number; width: number; height: number }[]
  edges: { key: string; path: string; conditional: boolean }[]
}

export const NODE_HEIGHT = 44
const CHARACTER = 8
const ENDS = new Set(['__start__', '__end__'])

/** Beside the name of a subgraph there is the sign that it opens. */
const SIGN = 24

export function place({ nodes, edges, open, closed }: Folded): Placed {
  const graph = new Graph({ multigraph: true, compound: true })
  graph.setGraph({ rankdir: 'TB', nodesep: 28, ranksep: 46, marginx: 20, marginy: 20 })
  graph.setDefaultEdgeLabel(() => ({}))
  for (const node of nodes) {
    const id = String(node.id)
    const isEnd = ENDS.has(id)
    const name = isEnd ? id.slice(2, -2) : nameIn(id)
    graph.setNode(id, {
      name,
      isEnd,
      width: isEnd ? 64 : Math.max(112, name.length * CHARACTER + 36 + (closed.has(id) ? SIGN : 0)),
      height: isEnd ? 26 : NODE_HEIGHT,
    })
  }
  for (const id of open) graph.setNode(id, { name: nameIn(id) })
  for (const id of graph.nodes()) {
    const parent = parentOf(id)
    if (parent !== null && graph.hasNode(parent)) graph.setParent(id, parent)
  }
  edges.forEach(({ source, target, conditional = false }, i) => {
    if (graph.hasNode(source) && graph.hasNode(target)) graph.setEdge(source, target, { conditional }, String(i))
  })
  layout(graph)
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number }
  return {
    width,
    height,
    nodes: nodes.map(node => {
      const id = String(node.id)
      const { x, y, width, name, isEnd } = graph.node(id) as unknown as Placed['nodes'][number]
      return { id, x, y, width, name, isEnd }
    }),
    boxes: open.map(id => {
      const { x, y, width, height, name } = graph.node(id) as unknown as Placed['boxes'][number]
      return { id, x, y, width, height, name }
    }),
    edges: graph.edges().map(edge => {
      const { points, conditional } = graph.edge(edge) as unknown as { points: Point[]; conditional: boolean }
      return { key: `${edge.v} ${edge.w} ${edge.name}`, path: curve(points), conditional }
    }),
  }
}

interface Point {
  x: number
  y: number
}

/** Through the middles of the parts, so that there are no corners. */
function curve(points: Point[]): string {
  const [first, ...rest] = points as [Point, ...Point[]]
  let path = `M${first.x},${first.y}`
  rest.forEach((point, i) => {
    const next = rest[i + 1]
    if (next === undefined) path += ` L${point.x},${point.y}`
    else path += ` Q${point.x},${point.y} ${(point.x + next.x) / 2},${(point.y + next.y) / 2}`
  })
  return path
}
