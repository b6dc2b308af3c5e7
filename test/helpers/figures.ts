import type { Link } from '../../bus/connect.js'
import type { Figures } from '../../bus/figures.js'
import type { MetricName } from '../../schemas/metrics.js'

/** The sum of what a role has counted under this name, with these labels; observations of a histogram. */
export async function figureOf(
  { figures }: { figures: Figures } | Link,
  name: MetricName,
  labels: { [label: string]: string } = {},
): Promise<number> {
  const samples = await figures.samples(error => {
    throw error
  })
  const wanted = samples.filter(
    one => one.name === name && Object.entries(labels).every(([label, value]) => one.labels?.[label] === value),
  )
  return wanted.reduce((sum, { value, counts = [] }) => sum + (value ?? counts.reduce((a, b) => a + b, 0)), 0)
}
