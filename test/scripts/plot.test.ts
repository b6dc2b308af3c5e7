import t from 'tap'
import { exactAxis, labelOf, linearAxis, logAxis } from '../../scripts/plot/axis.js'
import { dotPlot } from '../../scripts/plot/dots.js'
import { linePlot } from '../../scripts/plot/lines.js'
import { slopeOf } from '../../scripts/plot/slope.js'

t.test('axes have round labels that enclose the values', async t => {
  t.same(linearAxis(3, 17).ticks, [0, 5, 10, 15, 20])
  t.same(linearAxis(0, 20).ticks, [0, 5, 10, 15, 20])
  t.same(linearAxis(0, 0).ticks, [0, 0.25], 'a line at zero')
  t.same(linearAxis(-3, 8).ticks, [-5, 0, 5, 10])
  t.equal(linearAxis(0, 20).at(5), 0.25)
  t.same(exactAxis(0, 10).ticks, [0, 2, 4, 6, 8, 10])
  t.same([exactAxis(3, 9.5).at(3), exactAxis(3, 9.5).at(9.5)], [0, 1])
  t.same(logAxis(3, 4_000).ticks, [1, 10, 100, 1_000, 10_000])
  t.same(logAxis(100, 100).ticks, [100, 1_000])
  t.equal(logAxis(1, 100).at(10), 0.5)
  t.same([0.5, 1_234, 2_645_727].map(labelOf), ['0.5', '1.23K', '2.65M'])
})

t.test('the slope is that of the straight line through the points', async t => {
  t.equal(
    slopeOf([
      [0, 1],
      [1, 3],
      [2, 5],
    ]),
    2,
  )
  t.ok(
    Math.abs(
      slopeOf([
        [0, 1],
        [1, 0],
        [2, 1],
        [3, 0],
      ]) + 0.2,
    ) < 1e-12,
  )
  t.same([slopeOf([]), slopeOf([[1, 5]])], [0, 0])
})

/** Elements that are opened and closed in order: what a parser of XML requires. */
function wellFormed(svg: string): boolean {
  const open: string[] = []
  for (const [, end, name, , alone] of svg.matchAll(/<(\/?)([a-z]+)((?:\s[\w:-]+="[^"<]*")*)(\/?)>/g))
    if (end) {
      if (open.pop() !== name) return false
    } else if (!alone) open.push(name!)
  return open.length === 0 && !/<(?!\/?[a-z]+[\s>/])|&(?!\w+;)/.test(svg)
}

/** These values at 0, 5, 10 … */
const at = (...ys: number[]) => ys.map((y, i): [number, number] => [5 * i, y])

t.test('lines are drawn where their values are', async t => {
  const svg = linePlot({
    title: 'a < b & "c"',
    note: 'ten minutes',
    x: 'minutes',
    panels: [
      {
        title: 'memory',
        unit: 'MB',
        lines: [
          { name: 'edge', points: at(0, 100, 100) },
          { name: 'host', points: at(50, Number.NaN, 50) },
        ],
      },
      { title: 'p99', unit: 'ms', lines: [{ name: 'p99', points: [[0, 1]] }] },
    ],
    marks: [{ x: 5, name: 'killed' }],
  })
  t.ok(wellFormed(svg))
  t.match(svg, 'a &lt; b &amp; &quot;c&quot;')
  t.match(svg, '@media(prefers-color-scheme:dark)')
  const paths = [...svg.matchAll(/<path class="line c(\d)" d="([^"]+)"><title>(\w+)</g)].map(one => one.slice(1))
  t.same(
    paths.map(([n, , name]) => [n, name]),
    [
      ['0', 'edge'],
      ['1', 'host'],
      ['0', 'p99'],
    ],
  )
  const [edge, host] = paths.map(([, d]) => [...d!.matchAll(/([ML])(\d+\.\d) (\d+\.\d)/g)].map(one => one.slice(1)))
  t.same(
    edge!.map(([command]) => command),
    ['M', 'L', 'L'],
  )
  t.equal(edge![1]![2], edge![2]![2], 'equal values at an equal height')
  t.equal(Number(edge![0]![2]) - Number(edge![1]![2]), 150, '100 of an axis to 100')
  t.equal(Number(edge![0]![2]) - Number(host![0]![2]), 75)
  t.same(
    host!.map(([command]) => command),
    ['M', 'M'],
    'interrupted where there is no value',
  )
  t.match(svg, '<title>killed</title>')
})

t.test('dots of one row are ordered by their values', async t => {
  const svg = dotPlot({
    title: 'throughput',
    x: 'per second',
    servers: ['weft', 'peer'],
    rows: [
      { name: 'run-wait', values: { weft: 1_000, peer: 100 } },
      { name: 'chunks', values: { weft: 100_000, peer: null } },
    ],
  })
  t.ok(wellFormed(svg))
  const dots = [...svg.matchAll(/<circle class="dot c\d" cx="([\d.]+)" cy="[\d.]+" r="5.5"><title>([^<]+)</g)]
  const at = Object.fromEntries(dots.map(([, x, name]) => [name, Number(x)]))
  t.same(Object.keys(at).sort(), ['peer: 100', 'weft: 100K', 'weft: 1K'])
  t.ok(at['peer: 100']! < at['weft: 1K']! && at['weft: 1K']! < at['weft: 100K']!)
  t.ok(Math.abs((at['weft: 100K']! - at['peer: 100']!) / 3 - (at['weft: 1K']! - at['peer: 100']!)) < 0.1, 'decades')
})

t.test('a plot without a point is refused with one sentence', async t => {
  t.throws(() => linePlot({ title: 'empty', x: 's', panels: [] }), /the plot "empty" has no point/)
  t.throws(() => dotPlot({ title: 'empty', x: 's', servers: ['a'], rows: [] }), /needs at least one figure/)
  const zero = [{ name: 'z', values: { a: 0 } }]
  t.throws(() => dotPlot({ title: 'zero', x: 's', servers: ['a'], rows: zero }), /positive ones only/)
})
