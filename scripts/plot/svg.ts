/** The parts of an SVG picture, and its colours in light and dark (`prefers-color-scheme`). */

type Attributes = { readonly [name: string]: string | number }

/** An element; numbers are rounded to a tenth of a pixel. `inside` is markup. */
export function element(name: string, attributes: Attributes, inside = ''): string {
  const written = Object.entries(attributes).map(
    ([key, value]) => ` ${key}="${typeof value === 'number' ? Math.round(value * 10) / 10 : escaped(value)}"`,
  )
  return inside === '' ? `<${name}${written.join('')}/>` : `<${name}${written.join('')}>${inside}</${name}>`
}

export const text = (x: number, y: number, words: string, more: Attributes = {}): string =>
  element('text', { x, y, ...more }, escaped(words))

export const escaped = (words: string): string =>
  words.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

/** Colours that people with a colour deficiency can distinguish (Okabe and Ito), lighter on a dark ground. */
const LIGHT = ['#0072b2', '#d55e00', '#00845f', '#a8327d', '#8a6d00', '#4b5563']
const DARK = ['#56b4e9', '#f08c3c', '#2fc39a', '#e39cc4', '#e6c43c', '#aab4c0']

/** The class of the n-th line or server; the colours repeat after six. */
export const colour = (n: number): string => `c${n % LIGHT.length}`

/** Approximate width of text in pixels: there is no font to measure with. */
export const widthOf = (words: string, size = 12): number => words.length * size * 0.56

const rules = (ground: string, ink: string, dim: string, grid: string, colours: readonly string[]): string =>
  [
    `.ground{fill:${ground}}`,
    `text{fill:${ink}}`,
    `.dim{fill:${dim}}`,
    `.grid{stroke:${grid}}`,
    `.mark{stroke:${dim}}`,
    ...colours.map((value, i) => `.c${i}{--c:${value}}`),
  ].join('')

const STYLE = [
  'text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}',
  '.title{font-size:16px;font-weight:600}.head{font-weight:600}',
  '.line{fill:none;stroke:var(--c);stroke-width:1.75;stroke-linejoin:round;stroke-linecap:round}',
  '.dot{fill:var(--c)}.grid{stroke-width:1}.mark{stroke-width:1;stroke-dasharray:2 3}',
  rules('#ffffff', '#1f2328', '#59636e', '#e3e6ea', LIGHT),
  `@media(prefers-color-scheme:dark){${rules('#0d1117', '#e6edf3', '#9198a1', '#2a313a', DARK)}}`,
].join('')

/** A whole picture. `title` is also its name for screen readers. */
export function picture(width: number, height: number, title: string, inside: readonly string[]): string {
  const attributes = {
    xmlns: 'http://www.w3.org/2000/svg',
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: 'img',
  }
  const ground = element('rect', { class: 'ground', width, height, rx: 6 })
  const parts = [`<title>${escaped(title)}</title>`, `<style>${STYLE}</style>`, ground, ...inside]
  return `${element('svg', attributes, `\n${parts.join('\n')}\n`)}\n`
}

/** Names with their colours in a row, broken at `width`; the height that they need is returned, too. */
export function legend(
  names: readonly string[],
  x: number,
  y: number,
  width: number,
): { markup: string; height: number } {
  let [left, top] = [x, y]
  const parts = names.map((name, i) => {
    const size = 14 + widthOf(name) + 18
    if (left > x && left + size > x + width) [left, top] = [x, top + 18]
    const [at, row] = [left, top]
    left += size
    return `${element('circle', { class: `dot ${colour(i)}`, cx: at + 5, cy: row - 4, r: 4.5 })}${text(at + 14, row, name)}`
  })
  return { markup: parts.join('\n'), height: names.length === 0 ? 0 : top - y + 18 }
}
