/** A JSON value as a tree: parts fold and are made when they are opened, long texts wrap. */
import { memo, type ReactNode, useMemo, useState } from 'react'

const SHORT = 60
/** Entries of a list that are shown at a time. */
const MANY = 100
/** A value of more parts begins folded. */
const LARGE = 400
/** Characters of a text that are shown at first. */
const LONG = 4_000

/** `open`: how many levels are unfolded at first. */
export const Json = memo(({ value, open = 2 }: { value: unknown; open?: number }) => {
  const unfolded = useMemo(() => (sizeOf(value, LARGE) < LARGE ? open : Math.min(open, 1)), [value, open])
  return (
    <div className="json">
      <Value value={value} depth={0} open={unfolded} />
    </div>
  )
})

/** Parts of the value, counted up to `most`. */
export function sizeOf(value: unknown, most: number): number {
  if (value === null || typeof value !== 'object') return 1
  let size = 1
  for (const part of Object.values(value)) {
    size += sizeOf(part, most - size)
    if (size >= most) break
  }
  return size
}

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
          {typeof value === 'string' ? <Text of={value} /> : String(value)}
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
    <Fold
      isOpen={depth < open}
      head={
        <>
          {label}
          <span className="muted">{summaryOf(value, isList, entries.length)}</span>
        </>
      }
    >
      {() => <Parts entries={entries} depth={depth + 1} open={open} />}
    </Fold>
  )
}

interface FoldProps {
  isOpen: boolean
  head: ReactNode
  children: () => ReactNode
}

function Fold({ isOpen, head, children }: FoldProps) {
  const [shown, setShown] = useState(isOpen)
  return (
    <details open={isOpen} onToggle={event => setShown(event.currentTarget.open)}>
      <summary>{head}</summary>
      {shown && <div className="json-parts">{children()}</div>}
    </details>
  )
}

function Parts({ entries, depth, open }: { entries: [string, unknown][]; depth: number; open: number }) {
  const [shown, setShown] = useState(MANY)
  const rest = entries.length - shown
  return (
    <>
      {entries.slice(0, shown).map(([key, part]) => (
        <Value key={key} name={key} value={part} depth={depth} open={open} />
      ))}
      {rest > 0 && (
        <button type="button" className="json-more" onClick={() => setShown(shown + MANY)}>
          Show {Math.min(MANY, rest)} of {rest} more
        </button>
      )}
    </>
  )
}

function Text({ of: text }: { of: string }) {
  const [all, setAll] = useState(false)
  if (all || text.length <= LONG) return JSON.stringify(text)
  return (
    <>
      {`${JSON.stringify(text.slice(0, LONG)).slice(0, -1)}… `}
      <button type="button" className="json-more" onClick={() => setAll(true)}>
        Show all {text.length} characters
      </button>
    </>
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
