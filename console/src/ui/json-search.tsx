/** A JSON value with a search: the places whose name or text has what was typed. */
import { useDeferredValue, useMemo, useState } from 'react'
import { Json } from './json'

const MOST = 100
const AROUND = 60

interface Match {
  path: string
  text: string
}

export function JsonSearch({ value, label }: { value: unknown; label: string }) {
  const [text, setText] = useState('')
  const asked = useDeferredValue(text.trim().toLowerCase())
  const found = useMemo(() => (asked === '' ? null : search(value, asked)), [value, asked])
  return (
    <div className="json-search">
      <input
        type="search"
        aria-label={label}
        placeholder={label}
        value={text}
        onChange={event => setText(event.target.value)}
      />
      {found === null ? (
        <Json value={value} />
      ) : (
        <>
          <p className="muted" role="status">
            {found.length === 0 ? 'Nothing found' : `${found.length > MOST ? `More than ${MOST}` : found.length} found`}
          </p>
          <ul className="matches">
            {found.slice(0, MOST).map(({ path, text }) => (
              <li key={path}>
                <code>{path}</code>
                <span>{text}</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  )
}

/** One more than are shown, at most. */
function search(value: unknown, asked: string): Match[] {
  const found: Match[] = []
  const walk = (part: unknown, path: string, name: string) => {
    if (found.length > MOST) return
    const isLeaf = part === null || typeof part !== 'object'
    const text = isLeaf ? String(part) : ''
    const at = text.toLowerCase().indexOf(asked)
    if (at !== -1 || name.toLowerCase().includes(asked)) found.push({ path, text: excerpt(text, Math.max(0, at)) })
    if (isLeaf) return
    for (const [key, child] of Object.entries(part))
      walk(child, Array.isArray(part) ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`, key)
  }
  walk(value, '', '')
  return found
}

function excerpt(text: string, at: number): string {
  const from = Math.max(0, at - AROUND)
  const cut = text.slice(from, at + 2 * AROUND)
  return `${from > 0 ? '…' : ''}${cut}${from + cut.length < text.length ? '…' : ''}`
}
