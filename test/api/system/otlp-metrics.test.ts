/** The figures of each role, as a collector of OpenTelemetry receives them. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { boundsOf, METRICS, type MetricName } from '../../../schemas/metrics.js'
import { startCluster } from '../../helpers/cluster.js'

t.setTimeout(90_000)

interface Attribute {
  key: string
  value: { stringValue: string }
}
interface Point {
  attributes: Attribute[]
  asDouble?: number
  count?: string
  bucketCounts?: string[]
  explicitBounds?: number[]
  startTimeUnixNano: string
  timeUnixNano: string
}
interface Metric {
  name: string
  unit: string
  sum?: { aggregationTemporality: number; isMonotonic: boolean; dataPoints: Point[] }
  gauge?: { dataPoints: Point[] }
  histogram?: { aggregationTemporality: number; dataPoints: Point[] }
}
interface Received {
  service: string
  resource: { [name: string]: string }
  metrics: Metric[]
}
interface Body {
  resourceMetrics: { resource: { attributes: Attribute[] }; scopeMetrics: { metrics: Metric[] }[] }[]
}

const named = (attributes: readonly Attribute[]) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue]))
const pointsOf = ({ sum, gauge, histogram }: Metric) => (sum ?? gauge ?? histogram)!.dataPoints

async function openCollector(t: Test, status = 200) {
  const paths: string[] = []
  const keys = new Set<unknown>()
  const received: Received[] = []
  let changed = () => {}
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    paths.push(request.url!)
    keys.add(request.headers['x-key'])
    const { resourceMetrics = [] } = JSON.parse(Buffer.concat(parts).toString()) as Partial<Body>
    for (const { resource, scopeMetrics } of resourceMetrics) {
      const own = named(resource.attributes)
      received.push({
        service: own['service.name']!,
        resource: own,
        metrics: scopeMetrics.flatMap(({ metrics }) => metrics),
      })
    }
    response.writeHead(status, { 'content-type': 'application/json' }).end('{}')
    changed()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    paths,
    keys,
    received,
    /** Resolves when the condition holds for what was received. */
    async until(isMet: () => boolean): Promise<void> {
      while (!isMet()) await new Promise<void>(done => (changed = done))
    },
    /** The points of a metric in the latest values of a service. */
    points(service: string, name: string): Point[] {
      const latest = received.findLast(one => one.service === service)
      return latest?.metrics.filter(metric => metric.name === name).flatMap(pointsOf) ?? []
    },
  }
}

const run = async (url: string) => {
  const answer = await fetch(`${url}/runs/wait`, {
    method: 'POST',
    body: JSON.stringify({ assistant_id: 'counter', input: { steps: 2 } }),
  })
  await answer.text()
  return answer.status
}

t.test('every role sends its figures, which have the names and values of /metrics', async t => {
  const collector = await openCollector(t)
  const cluster = await startCluster({
    app: 'test/apps/basic',
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_HEADERS: 'x-key=a%20b',
      OTEL_METRIC_EXPORT_INTERVAL: '200',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
    },
  })
  t.teardown(() => cluster.stop())
  t.equal(await run(cluster.url), 200)
  const ended = () =>
    collector
      .points('weft-resources', 'weft_runs_ended_total')
      .find(({ attributes }) => named(attributes).status === 'success')
  await collector.until(() => ended()?.asDouble === 1)
  const services = ['weft-edge', 'weft-resources', 'weft-graphs', 'weft-deployer']
  await collector.until(() => services.every(name => collector.points(name, 'weft_up').length === 1))
  t.same([...collector.keys], ['a b'])
  for (const { service, resource, metrics } of collector.received) {
    t.ok(services.includes(service), service)
    t.ok(resource['service.instance.id'], 'processes of a role are told apart')
    t.equal(resource['deployment.environment.name'], 'test')
    for (const { name, sum, gauge, histogram } of metrics) {
      const type = METRICS[name as MetricName]?.type
      t.ok({ counter: sum, gauge, histogram }[type], `${name} is a ${type}`)
      if (sum) t.match(sum, { aggregationTemporality: 2, isMonotonic: true })
      for (const { count, bucketCounts = [], explicitBounds } of histogram?.dataPoints ?? []) {
        t.same(explicitBounds, boundsOf(name as MetricName))
        t.equal(bucketCounts.length, explicitBounds!.length + 1)
        t.equal(
          bucketCounts.reduce((total, one) => total + Number(one), 0),
          Number(count),
        )
      }
    }
  }
  const requests = () =>
    collector.points('weft-edge', 'lg_api_http_requests_latency_seconds').filter(({ count }) => Number(count) > 0)
  await collector.until(() => requests().length > 0)
  const [first] = requests()
  t.ok(BigInt(first!.startTimeUnixNano) < BigInt(first!.timeUnixNano))
  t.ok(collector.points('weft-graphs', 'weft_pool_slots').length > 0, 'of graph workers')
  t.ok(collector.points('weft-resources', 'weft_stream_bytes').length > 0, 'of the broker')

  const before = collector.received.length
  await cluster.stop()
  const last = new Set(collector.received.slice(before).map(({ service }) => service))
  for (const service of services) t.ok(last.has(service), `${service} sends its last figures`)
})

t.test('a collector without metrics is complained of once, and can be spared them', async t => {
  const collector = await openCollector(t, 404)
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_METRIC_EXPORT_INTERVAL: '100' }
  const refused = await startCluster({ app: 'test/apps/basic', env })
  t.teardown(() => refused.stop())
  const isSent = (path: string) => path === '/v1/metrics'
  await collector.until(() => collector.paths.filter(isSent).length >= 12)
  await refused.stop()
  t.equal(refused.output().split('OTEL_METRICS_EXPORTER=none').length - 1, 4, 'once for each role')

  collector.paths.length = 0
  const spared = await startCluster({ app: 'test/apps/basic', env: { ...env, OTEL_METRICS_EXPORTER: 'none' } })
  t.teardown(() => spared.stop())
  t.equal(await run(spared.url), 200)
  await spared.stop()
  t.ok(collector.paths.includes('/v1/traces'))
  t.notOk(collector.paths.some(isSent))
})
