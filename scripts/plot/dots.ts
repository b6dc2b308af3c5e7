/**
 * Rows of dots on a logarithmic axis: the same figure of several servers. A position may be read on such an axis; the length
 * of a bar may not, because it has no zero.
 */
import { labelOf, logAxis } from './axis.js'
import { colour, element, escaped, legend, picture, text, widthOf } from './svg.js'

export interface DotRow {
  name: string
  /** By the names of `servers`; null, or absent: no figure. Positive. */
  values: { readonly [server: string]: number | null }
}

export interface DotPlot {
  title: string
  /** A sentence below the title. */
  note?: string
  /** The words below the axis, with the unit: "per second". */
  x: string
  /** In the order of their colours. */
  servers: readonly string[]
  rows: readonly DotRow[]
}

const WIDTH = 820
const EDGE = 20
const ROW = 30

/** SVG text of the plot; it follows the colour scheme of the reader. Throws when there is no positive figure. */
export function dotPlot({ title, note, x, servers, rows }: DotPlot): string {
  const figures = rows.flatMap(({ values }) => servers.flatMap(server => values[server] ?? []))
  if (figures.length === 0 || figures.some(value => !(value > 0)))
    throw new Error(`the plot "${title}" needs at least one figure, and positive ones only: its axis is logarithmic`)
  const axis = logAxis(Math.min(...figures), Math.max(...figures))
  const left = EDGE + Math.max(...rows.map(({ name }) => widthOf(name))) + 24
  const inner = WIDTH - left - 44
  const parts = [text(EDGE, 30, title, { class: 'title' })]
  if (note !== undefined) parts.push(text(EDGE, 50, note, { class: 'dim' }))
  const key = legend(servers, EDGE, note === undefined ? 56 : 76, WIDTH - 2 * EDGE)
  parts.push(key.markup)
  const top = (note === undefined ? 56 : 76) + key.height
  const bottom = top + rows.length * ROW
  for (const tick of axis.ticks) {
    const at = left + axis.at(tick) * inner
    parts.push(element('line', { class: 'grid', x1: at, x2: at, y1: top - 8, y2: bottom }))
    parts.push(text(at, bottom + 16, labelOf(tick), { class: 'dim', 'text-anchor': 'middle' }))
  }
  for (const [i, { name, values }] of rows.entries()) {
    const y = top + i * ROW + 14
    parts.push(text(EDGE, y + 4, name))
    const dots = servers.flatMap((server, n) => {
      const value = values[server] ?? null
      return value === null ? [] : [{ server, n, value, at: left + axis.at(value) * inner }]
    })
    const ends = dots.map(({ at }) => at)
    if (dots.length > 1)
      parts.push(element('line', { class: 'grid', x1: Math.min(...ends), x2: Math.max(...ends), y1: y, y2: y }))
    for (const { server, n, value, at } of dots.toReversed()) {
      const said = `<title>${escaped(`${server}: ${labelOf(value)}`)}</title>`
      parts.push(element('circle', { class: `dot ${colour(n)}`, cx: at, cy: y, r: 5.5 }, said))
    }
    parts.push(...labelsOf(dots, y))
  }
  parts.push(text(left + inner, bottom + 34, x, { class: 'dim', 'text-anchor': 'end' }))
  return picture(WIDTH, bottom + 46, title, parts)
}

/** A label above each dot, except where it would cover that of an earlier server. */
function labelsOf(dots: readonly { value: number; at: number }[], y: number): string[] {
  const taken: [from: number, to: number][] = []
  return dots.flatMap(({ value, at }) => {
    const half = widthOf(labelOf(value), 10) / 2 + 2
    if (taken.some(([from, to]) => at + half > from && at - half < to)) return []
    taken.push([at - half, at + half])
    return [text(at, y - 8, labelOf(value), { class: 'dim', 'text-anchor': 'middle', style: 'font-size:10px' })]
  })
}
