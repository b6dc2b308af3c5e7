const WIDTH = 200
const HEIGHT = 44

interface ChartProps {
  name: string
  /** The newest value as text. */
  value: string
  points: readonly number[]
  /** More of it is worse. */
  isBad?: boolean
}

/** A figure over time: a line from the oldest to the newest point, on a scale that begins with zero. */
export function Chart({ name, value, points, isBad = false }: ChartProps) {
  const top = Math.max(1, ...points)
  const step = WIDTH / Math.max(1, points.length - 1)
  const at = points.map(
    (point, i) => `${(i * step).toFixed(1)},${(HEIGHT - 2 - (point / top) * (HEIGHT - 6)).toFixed(1)}`,
  )
  return (
    <figure className={isBad ? 'chart chart-bad' : 'chart'}>
      <figcaption>
        <span className="muted">{name}</span>
        <strong>{value}</strong>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        {at.length > 1 && (
          <>
            <polygon points={`0,${HEIGHT} ${at.join(' ')} ${WIDTH},${HEIGHT}`} />
            <polyline points={at.join(' ')} />
          </>
        )}
      </svg>
    </figure>
  )
}
