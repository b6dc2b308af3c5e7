/** Lines over a common x axis, in panels below each other: what happened over time. */
import { type Axis, exactAxis, labelOf, linearAxis } from './axis.js'
import { colour, element, escaped, legend, picture, text } from './svg.js'

export type Point = readonly [x: number, y: number]

export interface Line {
  name: string
  /** In increasing order of x. A y that is not finite interrupts the line. */
  points: readonly Point[]
}

export interface Panel {
  title: string
  /** Written after the title: "MB", "/s", "ms". */
  unit: string
  lines: readonly Line[]
}

export interface LinePlot {
  title: string
  /** A sentence below the title: when, where, how much. */
  note?: string
  /** The words below the x axis, with the unit: "minutes". */
  x: string
  panels: readonly Panel[]
  /** Moments with a name, drawn as vertical lines through all panels; the name appears under the pointer. */
  marks?: readonly { x: number; name: string }[]
}

const WIDTH = 820
const LEFT = 62
const RIGHT = 24
const PLOT = 150
const INNER = WIDTH - LEFT - RIGHT

/** SVG text of the plot; it follows the colour scheme of the reader. Throws when no line has a point. */
export function linePlot({ title, note, x, panels, marks = [] }: LinePlot): string {
  const xs = panels.flatMap(({ lines }) => lines.flatMap(({ points }) => points.map(([at]) => at)))
  if (xs.length === 0) throw new Error(`the plot "${title}" has no point: expected at least one in one of its lines`)
  const across = exactAxis(xs.reduce(least), xs.reduce(most))
  const parts = [text(LEFT - 42, 30, title, { class: 'title' })]
  if (note !== undefined) parts.push(text(LEFT - 42, 50, note, { class: 'dim' }))
  let top = note === undefined ? 46 : 66
  for (const panel of panels) {
    const drawn = panelAt(top, panel, across, marks)
    parts.push(drawn.markup)
    top = drawn.bottom
  }
  for (const tick of across.ticks)
    parts.push(text(LEFT + across.at(tick) * INNER, top + 4, labelOf(tick), { class: 'dim', 'text-anchor': 'middle' }))
  parts.push(text(LEFT + INNER, top + 22, x, { class: 'dim', 'text-anchor': 'end' }))
  return picture(WIDTH, top + 34, title, parts)
}

const least = (a: number, b: number): number => Math.min(a, b)
const most = (a: number, b: number): number => Math.max(a, b)

function panelAt(from: number, { title, unit, lines }: Panel, across: Axis, marks: LinePlot['marks'] & {}) {
  const parts = [text(LEFT - 42, from + 16, `${title}, ${unit}`, { class: 'head' })]
  const names = lines.length > 1 ? lines.map(({ name }) => name) : []
  const key = legend(names, LEFT - 42, from + 36, INNER + 42)
  parts.push(key.markup)
  const top = from + 28 + (key.height && key.height + 6)
  const ys = lines.flatMap(({ points }) => points.map(([, y]) => y)).filter(Number.isFinite)
  const up = linearAxis(ys.reduce(least, 0), ys.reduce(most, 0))
  const heightOf = (y: number) => top + PLOT - up.at(y) * PLOT
  for (const tick of up.ticks) {
    const y = heightOf(tick)
    parts.push(element('line', { class: 'grid', x1: LEFT, x2: LEFT + INNER, y1: y, y2: y }))
    parts.push(text(LEFT - 8, y + 4, labelOf(tick), { class: 'dim', 'text-anchor': 'end' }))
  }
  for (const mark of marks) {
    const x = LEFT + across.at(mark.x) * INNER
    const name = `<title>${escaped(mark.name)}</title>`
    parts.push(element('line', { class: 'mark', x1: x, x2: x, y1: top, y2: top + PLOT }, name))
  }
  for (const [i, { name, points }] of lines.entries()) {
    const d = pathOf(points.map(([x, y]) => [LEFT + across.at(x) * INNER, heightOf(y)]))
    parts.push(element('path', { class: `line ${colour(i)}`, d }, `<title>${escaped(name)}</title>`))
  }
  return { markup: parts.join('\n'), bottom: top + PLOT + 16 }
}

/** A point alone is drawn by its round end. */
function pathOf(points: readonly Point[]): string {
  let drawing = false
  const parts: string[] = []
  for (const [x, y] of points) {
    if (!Number.isFinite(y)) {
      drawing = false
      continue
    }
    const at = `${x.toFixed(1)} ${y.toFixed(1)}`
    parts.push(drawing ? `L${at}` : `M${at}h0`)
    drawing = true
  }
  return parts.join('')
}
