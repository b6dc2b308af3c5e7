/** The trend of points. */
import type { Point } from './lines.js'

/**
 * The slope of the straight line with the least squared distance, in units of y per unit of x; 0 for less than two points
 * or a single x.
 */
export function slopeOf(points: readonly Point[]): number {
  const n = points.length
  const meanX = points.reduce((sum, [x]) => sum + x, 0) / n
  const meanY = points.reduce((sum, [, y]) => sum + y, 0) / n
  let above = 0
  let below = 0
  for (const [x, y] of points) {
    above += (x - meanX) * (y - meanY)
    below += (x - meanX) ** 2
  }
  return below > 0 ? above / below : 0
}
