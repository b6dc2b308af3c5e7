/** A graph as a drawing; nodes that run are lit, with their time and how often they ran. */
import { useId, useMemo, useState } from 'react'
import { client } from '../../api/client'
import { useLoad } from '../../api/load'
import { useStore } from '../../api/store'
import { Icon } from '../../ui/icon'
import { LoadedView } from '../../ui/notice'
import { durationText } from '../../ui/time'
import '../../styles/graph.css'
import { type Activity, NOTHING, type NodeActivity } from './activity'
import { type Drawing, fold } from './fold'
import { NODE_HEIGHT, place } from './layout'

interface GraphViewProps {
  assistantId: string
  activity: Activity
}

export default function GraphView({ assistantId, activity }: GraphViewProps) {
  const drawing = useLoad(`graph ${assistantId}`, () => client.assistants.getGraph(assistantId, { xray: true }))
  return <LoadedView of={drawing}>{graph => <Picture drawing={graph as Drawing} activity={activity} />}</LoadedView>
}

function Picture({ drawing, activity }: { drawing: Drawing; activity: Activity }) {
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set())
  const folded = useMemo(() => fold(drawing, opened), [drawing, opened])
  const { width, height, nodes, edges, boxes } = useMemo(() => place(folded), [folded])
  const { byId } = useStore(activity.nodes)
  const arrow = useId()
  const toggle = (id: string) => setOpened(last => (last.has(id) ? without(last, id) : new Set([...last, id])))
  const hasParts = folded.closed.size + boxes.length > 0
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls where the screen is narrow.
    <div className="graph-scroll" tabIndex={0}>
      <svg
        className="graph"
        style={{ minWidth: width * SMALLEST }}
        viewBox={`0 0 ${width} ${height}`}
        width={width}
        height={height}
        // Subgraphs are buttons, which a picture cannot contain.
        role={hasParts ? 'group' : 'img'}
        aria-label={textOf(nodes, byId)}
      >
        <defs>
          <marker id={arrow} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path d="M0,0.5 L8,4 L0,7.5 z" />
          </marker>
        </defs>
        {boxes.map(({ id, x, y, width, height }) => (
          <g
            key={id}
            className={`box ${stateOf(activityOf(id, byId))}`}
            transform={`translate(${x - width / 2} ${y - height / 2})`}
          >
            <rect width={width} height={height} rx={10} />
          </g>
        ))}
        {edges.map(({ key, path, conditional }) => (
          <path key={key} d={path} className={conditional ? 'edge conditional' : 'edge'} markerEnd={`url(#${arrow})`} />
        ))}
        {boxes.map(({ id, name, x, y, width, height }) => (
          <foreignObject key={id} x={x - width / 2 + 12} y={y - height / 2 - 12} width={width - 24} height={24}>
            <Toggle name={name} isOpen toggle={() => toggle(id)} />
          </foreignObject>
        ))}
        {nodes.map(({ id, name, x, y, width, isEnd }) => {
          const node = activityOf(id, byId)
          const height = isEnd ? 26 : NODE_HEIGHT
          const isClosed = folded.closed.has(id)
          return (
            <g
              key={id}
              className={`node ${isEnd ? 'end' : stateOf(node)}`}
              transform={`translate(${x - width / 2} ${y - height / 2})`}
            >
              <rect width={width} height={height} rx={isEnd ? 13 : 8} />
              {!isClosed && (
                <text x={width / 2} y={isEnd ? 17 : node.begun > 0 ? 19 : 27}>
                  {name}
                </text>
              )}
              {isClosed && (
                <foreignObject width={width} height={node.begun > 0 ? 28 : height}>
                  <Toggle name={name} isOpen={false} toggle={() => toggle(id)} />
                </foreignObject>
              )}
              {node.begun > 0 && (
                <text x={width / 2} y={35} className="node-note">
                  {noteOf(node)}
                </text>
              )}
            </g>
          )
        })}
      </svg>
    </div>
  )
}

/** The part of its size below which its words cannot be read. */
const SMALLEST = 0.75

/** Opens a subgraph to a box with its nodes, and closes it again. */
const Toggle = ({ name, isOpen, toggle }: { name: string; isOpen: boolean; toggle: () => void }) => (
  <button type="button" className="graph-toggle" aria-expanded={isOpen} onClick={toggle}>
    {name}
    <Icon name={isOpen ? 'down' : 'right'} />
  </button>
)

/** Closes a subgraph and those in it. */
const without = (opened: ReadonlySet<string>, id: string): ReadonlySet<string> =>
  new Set([...opened].filter(one => one !== id && !one.startsWith(`${id}:`)))

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
