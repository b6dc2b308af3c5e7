/** How a difference is printed. */
import { inspect } from 'node:util'
import { ABSENT, type Difference } from './differ.js'

/** `names` are those of the two servers. */
export const lineOf = (place: string, { path, ours, theirs }: Difference, names: readonly [string, string]): string => {
  const width = Math.max(...names.map(name => name.length))
  const [own, other] = names.map(name => name.padEnd(width))
  return `${place} ${path}\n    ${own} ${short(ours)}\n    ${other} ${short(theirs)}`
}

function short(value: unknown): string {
  if (value === ABSENT) return '(absent)'
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? inspect(value))
  return text.length > 240 ? `${text.slice(0, 240)}…` : text
}
