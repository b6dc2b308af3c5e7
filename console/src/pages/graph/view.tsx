/** A graph as a drawing; nodes that run are lit, with their time and how often they ran. */
import { useId, useMemo } from 'react'
import { client } from '../../api/client'
import { useLoad } from '../../api/load'
import { useStore } from '../../api/store'
import { LoadedView } from '../../ui/notice'
import { durationText } from '../../ui/time'
import '../../styles/graph.css'
import { type Activity, NOTHING, type NodeActivity } from './activity'
import { type Drawing, NODE_HEIGHT, place } from './layout'

interface GraphViewProps {
  assistantId: string
  activity: Activity
}

export default function GraphView({ assistantId, activity }: GraphViewProps) {
  const drawing = useLoad(`graph ${assistantId}`, () => client.assistants.getGraph(assistantId, { xray: true }))
  return <LoadedView of={drawing}>{graph => <Picture drawing={graph as Drawing} activity={activity} />}</LoadedView>
}

function Picture({ drawing, activity }: { drawing: Drawing; activity: Activity }) {
  const { width, height, nodes, edges } = useMemo(() => place(drawing), [drawing])
  const { byId } = useStore(activity.nodes)
  const arrow = useId()
  return (
    <svg
      className="graph"
      viewBox={`0 0 ${width} ${height}`}
      width={width}
      height={height}
      role="img"
      aria-label={textOf(nodes, byId)}
    >
      <defs>
        <marker id={arrow} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
          <path d="M0,0.5 L8,4 L0,7.5 z" />
        </marker>
      </defs>
      {edges.map(({ key, path, conditional }) => (
        <path key={key} d={path} className={conditional ? 'edge conditional' : 'edge'} markerEnd={`url(#${arrow})`} />
      ))}
      {nodes.map(({ id, name, x, y, width, isEnd }) => {
        const node = activityOf(id, byId)
        const height = isEnd ? 26 : NODE_HEIGHT
        return (
          <g
            key={id}
            className={`node ${isEnd ? 'end' : stateOf(node)}`}
            transform={`translate(${x - width / 2} ${y - height / 2})`}
          >
            <rect width={width} height={height} rx={isEnd ? 13 : 8} />
            <text x={width / 2} y={isEnd ? 17 : node.begun > 0 ? 19 : 27}>
              {name}
            </text>
            {node.begun > 0 && (
              <text x={width / 2} y={35} className="node-note">
                {noteOf(node)}
              </text>
            )}
          </g>
        )
      })}
    </svg>
  )
}

/** A node whose subgraph is drawn is not drawn itself: what its parts do is noted with them. */
const activityOf = (id: string, byId: { readonly [id: string]: NodeActivity }): NodeActivity => {
  const own = byId[id]
  if (own !== undefined) return own
  // A run that does not stream its subgraphs tells only of the node around them.
  const around = id.includes(':') ? byId[id.slice(0, id.indexOf(':'))] : undefined
  const hasParts = Object.keys(byId).some(other => other.startsWith(`${id.split(':', 1)[0]}:`))
  return around !== undefined && !hasParts ? around : NOTHING
}

function stateOf({ running, begun, failed, waits }: NodeActivity): string {
  if (running > 0) return 'running'
  if (failed) return 'failed'
  if (waits) return 'waits'
  return begun > 0 ? 'ran' : ''
}

function noteOf({ running, begun, ms, waits, failed }: NodeActivity): string {
  const often = begun > 1 ? ` · ${begun} ×` : ''
  if (running > 0) return `running${often}`
  return `${waits ? 'waits for an answer' : failed ? 'failed' : durationText(ms)}${often}`
}

function textOf(nodes: { id: string; name: string }[], byId: { readonly [id: string]: NodeActivity }): string {
  const parts = nodes.map(({ id, name }) => {
    const node = activityOf(id, byId)
    return node.begun > 0 ? `${name} (${noteOf(node)})` : name
  })
  return `Graph with the nodes ${parts.join(', ')}`
}
