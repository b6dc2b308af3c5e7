/** Times and durations as text. */
export function durationText(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`
  const s = ms / 1_000
  if (s < 10) return `${s.toFixed(1)} s`
  if (s < 60) return `${Math.round(s)} s`
  if (s < 3_600) return withRest(Math.floor(s / 60), 'min', Math.round(s % 60), 's')
  if (s < 86_400) return withRest(Math.floor(s / 3_600), 'h', Math.round((s % 3_600) / 60), 'min')
  return `${Math.floor(s / 86_400)} d`
}

const withRest = (whole: number, unit: string, rest: number, part: string): string =>
  rest === 0 ? `${whole} ${unit}` : `${whole} ${unit} ${rest} ${part}`

const AGES: readonly [limit: number, unit: number, name: string][] = [
  [60, 1, 's'],
  [3_600, 60, 'min'],
  [86_400, 3_600, 'h'],
  [Number.POSITIVE_INFINITY, 86_400, 'd'],
]

/** "3 min ago", with the whole time as its title. */
export function Ago({ at }: { at: string | undefined | null }) {
  if (!at) return <span className="muted">–</span>
  const date = new Date(at)
  const s = Math.max(0, (Date.now() - date.getTime()) / 1_000)
  const [, unit, name] = AGES.find(([limit]) => s < limit)!
  const text = s < 5 ? 'now' : `${Math.floor(s / unit)} ${name} ago`
  return (
    <time dateTime={at} title={date.toLocaleString()}>
      {text}
    </time>
  )
}

export const clockText = (at: string): string =>
  new Date(at).toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' })
