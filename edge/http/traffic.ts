/**
 * Counts the requests of each route: one array of numbers per route, written when a request is over, and read only when
 * metrics are asked for.
 */
import { type Histogram, openHistogram } from '../../bus/figures.js'
import type { MetricName, Sample } from '../../schemas/metrics.js'
import type { Route } from '../routes.js'
import type { Exchange } from './exchange.js'

export interface Traffic {
  /** To be called when the request of a route is over. */
  count(route: Route, exchange: Exchange): void
  samples(): Sample[]
}

const REQUESTS: MetricName = 'lg_api_http_requests_total'
const LATENCY: MetricName = 'lg_api_http_requests_latency_seconds'
/** By status class; the first: the client left before an answer. */
const CLASSES = ['aborted', '1xx', '2xx', '3xx', '4xx', '5xx']

interface Counts {
  classes: number[]
  latency: Histogram
}

export function openTraffic(routes: readonly Route[]): Traffic {
  const counts: Counts[] = routes.map(() => ({ classes: CLASSES.map(() => 0), latency: openHistogram() }))
  return {
    count(route, { status, started }) {
      const { classes, latency } = counts[route.index]!
      classes[Math.floor(status / 100)]!++
      latency.observe((performance.now() - started) / 1_000)
    },
    samples: () =>
      routes.flatMap(route => {
        const { classes, latency } = counts[route.index]!
        if (classes.every(count => count === 0)) return []
        const labels = { method: route.method, path: route.path }
        const requests = CLASSES.flatMap((status, i) =>
          classes[i] === 0 ? [] : [{ name: REQUESTS, value: classes[i]!, labels: { ...labels, status } }],
        )
        return [...requests, latency.sample(LATENCY, labels)]
      }),
  }
}
