/** A drawing with all subgraphs, folded to those that a person has opened. Ids are paths: "research:plan". */
export interface Drawing {
  nodes: { id: string | number; type?: string; data?: unknown }[]
  edges: { source: string; target: string; conditional?: boolean; data?: unknown }[]
}

export interface Folded extends Drawing {
  /** Subgraphs that are drawn as one node. */
  closed: ReadonlySet<string>
  /** Subgraphs that are drawn as boxes, the outer ones first. */
  open: readonly string[]
}

export const parentOf = (id: string): string | null => (id.includes(':') ? id.slice(0, id.lastIndexOf(':')) : null)
export const nameIn = (id: string): string => id.slice(id.lastIndexOf(':') + 1)

/** The subgraphs around a node, the outer one first. */
const around = (id: string): string[] => {
  const parts = id.split(':')
  return parts.slice(1).map((_, i) => parts.slice(0, i + 1).join(':'))
}

export function fold({ nodes, edges }: Drawing, opened: ReadonlySet<string>): Folded {
  const closed = new Set<string>()
  const open = new Set<string>()
  const shown = (id: string): string => {
    for (const group of around(id)) {
      if (!opened.has(group)) {
        closed.add(group)
        return group
      }
      open.add(group)
    }
    return id
  }
  const byId = new Map(nodes.map(node => [shown(`${node.id}`), node]))
  const ends = new Map<string, Drawing['edges'][number]>()
  for (const edge of edges) {
    const [source, target] = [shown(edge.source), shown(edge.target)]
    // Inside of what is one node here.
    if (source === target && source !== edge.source) continue
    ends.set(JSON.stringify([source, target, edge.conditional]), { ...edge, source, target })
  }
  return {
    nodes: [...byId].map(([id, node]) => ({ ...node, id })),
    edges: [...ends.values()],
    closed,
    open: [...open].sort((a, b) => a.length - b.length),
  }
}
