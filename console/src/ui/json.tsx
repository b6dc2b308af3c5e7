/** A JSON value as a tree: parts fold, long texts wrap. */
import { memo } from 'react'

const SHORT = 60
const MANY = 200

export const Json = memo(({ value, open = 2 }: { value: unknown; open?: number }) => (
  <div className="json">
    <Value value={value} depth={0} open={open} />
  </div>
))

interface PartProps {
  name?: string
  value: unknown
  depth: number
  open: number
}

function Value({ name, value, depth, open }: PartProps) {
  const label = name === undefined ? null : <span className="json-name">{name}</span>
  if (value === null || typeof value !== 'object')
    return (
      <div className="json-leaf">
        {label}
        <span className={`json-${value === null ? 'null' : typeof value}`}>
          {typeof value === 'string' ? JSON.stringify(value) : String(value)}
        </span>
      </div>
    )
  const entries = Object.entries(value)
  const isList = Array.isArray(value)
  if (entries.length === 0)
    return (
      <div className="json-leaf">
        {label}
        <span className="muted">{isList ? '[]' : '{}'}</span>
      </div>
    )
  return (
    <details open={depth < open}>
      <summary>
        {label}
        <span className="muted">{summaryOf(value, isList, entries.length)}</span>
      </summary>
      <div className="json-parts">
        {entries.slice(0, MANY).map(([key, part]) => (
          <Value key={key} name={key} value={part} depth={depth + 1} open={open} />
        ))}
        {entries.length > MANY && <p className="muted">{entries.length - MANY} more are not shown.</p>}
      </div>
    </details>
  )
}

/** The label of a folded part: its size and its name. */
function summaryOf(value: object, isList: boolean, size: number): string {
  if (isList) return `[${size}]`
  const { type, name, id, content } = value as { [key: string]: unknown }
  const words = [type, name, content, id].filter(one => typeof one === 'string' && one !== '')
  const text = words.slice(0, 2).join(' · ')
  return text === '' ? `{${size}}` : text.length > SHORT ? `${text.slice(0, SHORT)}…` : text
}
