/** One trace from the request to each node, as a collector of OpenTelemetry receives it. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { startCluster } from '../../helpers/cluster.js'
import { lines } from '../../helpers/sdk.js'

t.setTimeout(90_000)

interface Received {
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  kind: number
  status: { code?: number; message?: string }
  startTimeUnixNano: string
  endTimeUnixNano: string
  role: string
  service: string
  attributes: Attribute[]
}
interface Attribute {
  key: string
  value: { stringValue?: string; intValue?: number | string; doubleValue?: number }
}

/** A collector that accepts OTLP over HTTP as JSON. */
async function openCollector(t: Test) {
  const spans: Received[] = []
  const keys = new Set<string | undefined>()
  let changed = () => {}
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    keys.add(request.headers['x-key'] as string | undefined)
    const { resourceSpans = [] } = JSON.parse(Buffer.concat(parts).toString()) as {
      resourceSpans?: {
        resource: { attributes: Attribute[] }
        scopeSpans: { spans: Omit<Received, 'role' | 'service'>[] }[]
      }[]
    }
    for (const { resource, scopeSpans } of resourceSpans) {
      const named = (name: string) => resource.attributes.find(({ key }) => key === name)?.value.stringValue ?? ''
      const [role, service] = [named('weft.role'), named('service.name')]
      for (const scope of scopeSpans) spans.push(...scope.spans.map(span => ({ ...span, role, service })))
    }
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    changed()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    keys,
    spans,
    /** The spans of this name, once there are so many. */
    async find(name: string, count: number): Promise<Received[]> {
      for (;;) {
        const next = new Promise<void>(done => (changed = done))
        const found = spans.filter(span => span.name === name)
        if (found.length >= count) return found
        await next
      }
    },
    /** The spans of a trace, once all these names are among them. */
    async trace(traceId: string, names: string[]): Promise<Received[]> {
      for (;;) {
        const next = new Promise<void>(done => (changed = done))
        const found = spans.filter(span => span.traceId === traceId)
        if (names.every(name => found.some(span => span.name === name))) return found
        await next
      }
    },
  }
}

const ids = (n: number) => ({ traceId: `${n}`.repeat(32).slice(0, 32), spanId: `${n}`.repeat(16).slice(0, 16) })

t.test('a traced request', async t => {
  const collector = await openCollector(t)
  const cluster = await startCluster({
    app: 'test/apps/basic',
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_HEADERS: 'x-key=a%20b',
      WEFT_CRON_SECONDS: '1',
    },
  })
  t.teardown(() => cluster.stop())
  const client = lines[0]!.connect(cluster.url)
  const { thread_id } = await client.threads.create()
  const wait = (n: number, graph: string, input: object) => {
    const { traceId, spanId } = ids(n)
    return fetch(`${cluster.url}/threads/${thread_id}/runs/wait`, {
      method: 'POST',
      headers: { traceparent: `00-${traceId}-${spanId}-01` },
      body: JSON.stringify({ assistant_id: graph, input, multitask_strategy: 'enqueue' }),
    })
  }
  const request = 'POST /threads/:thread_id/runs/wait'

  await t.test('is one trace: request, call, run, nodes, nodes of subgraphs', async t => {
    // The second run waits for the end of the first, and is woken by it.
    const [first] = await Promise.all([wait(1, 'nested', {}), wait(2, 'counter', { steps: 2 })])
    t.equal(first!.status, 200)
    const spans = await collector.trace(ids(1).traceId, [request, 'rpc.runs.create', 'run nested'])
    const named = (name: string) => spans.find(span => span.name === name)!
    const parentOf = ({ parentSpanId }: Received) => spans.find(({ spanId }) => spanId === parentSpanId)
    t.equal(named(request).parentSpanId, ids(1).spanId, 'below the span of the client')
    t.equal(named(request).role, 'edge')
    t.equal(parentOf(named('rpc.runs.create'))?.name, request)
    t.equal(named('rpc.runs.create').role, 'resources')
    t.equal(parentOf(named('run nested'))?.name, 'rpc.runs.create')
    t.equal(named('run nested').role, 'graphs')
    for (const { role, service } of spans) t.equal(service, `weft-${role}`)
    const nodes = spans.filter(span => span.role === 'graphs' && span.name !== 'run nested')
    const outer = nodes.filter(span => parentOf(span)?.name === 'run nested')
    const inner = nodes.filter(span => outer.includes(parentOf(span)!))
    t.ok(outer.length >= 1, 'nodes of the graph')
    t.ok(inner.length >= 1, 'nodes of its subgraph')
    for (const node of nodes) {
      const above = parentOf(node)!
      t.ok(
        BigInt(node.startTimeUnixNano) >= BigInt(above.startTimeUnixNano),
        `${node.name} begins within ${above.name}`,
      )
      t.ok(BigInt(node.endTimeUnixNano) >= BigInt(node.startTimeUnixNano))
    }
    const second = await collector.trace(ids(2).traceId, [request, 'run counter'])
    t.ok(second.filter(({ role }) => role === 'graphs').length > 1, 'a run that waited is in the trace of its request')
  })

  await t.test('a node that fails has its error', async t => {
    await wait(3, 'fail', {})
    const spans = await collector.trace(ids(3).traceId, ['run fail'])
    t.ok(spans.some(({ status }) => status.code === 2 && status.message?.includes('too bad')))
  })

  await t.test('each run of a cron is a trace that begins when the cron fires', async t => {
    const { cron_id } = await client.crons.create('counter', { schedule: '* * * * * *', input: { steps: 2 } })
    const fired = (await collector.find('cron fired', 2)).slice(0, 2)
    await client.crons.delete(cron_id)
    t.equal(new Set(fired.map(({ traceId }) => traceId)).size, 2)
    for (const { traceId, spanId, parentSpanId, role } of fired) {
      t.equal(role, 'resources')
      t.notOk(parentSpanId, 'nothing is above it')
      const spans = await collector.trace(traceId, ['run counter'])
      const run = spans.find(({ name }) => name === 'run counter')!
      t.equal(run.parentSpanId, spanId)
      t.ok(spans.filter(({ parentSpanId }) => parentSpanId === run.spanId).length >= 1, 'its nodes')
    }
  })

  await t.test('the headers of the collector are sent, and runs do not show the trace', async t => {
    t.same([...collector.keys], ['a b'])
    t.notMatch(JSON.stringify(await client.runs.list(thread_id)), ids(1).traceId)
  })
})

t.test('models and tools have the names of the semantic conventions, and an interrupt is no error', async t => {
  const collector = await openCollector(t)
  const cluster = await startCluster({
    app: 'test/apps/spans',
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_SERVICE_NAME: 'shop', WEFT_RUN_SPANS_HOURS: '0' },
  })
  t.teardown(() => cluster.stop())
  const run = async (n: number, assistant_id: string) => {
    const { traceId, spanId } = ids(n)
    const { thread_id } = await lines[0]!.connect(cluster.url).threads.create()
    await fetch(`${cluster.url}/threads/${thread_id}/runs/wait`, {
      method: 'POST',
      headers: { traceparent: `00-${traceId}-${spanId}-01` },
      body: JSON.stringify({ assistant_id, input: {} }),
    })
    const spans = await collector.trace(traceId, [`run ${assistant_id}`])
    const attributesOf = (name: string) =>
      Object.fromEntries(
        spans
          .find(span => span.name === name)!
          .attributes.map(({ key, value }) => [key, value.stringValue ?? Number(value.intValue ?? value.doubleValue)]),
      )
    return { spans, attributesOf, thread_id }
  }
  const { spans, attributesOf, thread_id } = await run(4, 'agent')
  t.match(attributesOf('run agent'), {
    'gen_ai.operation.name': 'invoke_workflow',
    'gen_ai.workflow.name': 'agent',
    'gen_ai.conversation.id': thread_id,
  })
  const model = attributesOf('chat parrot-1')
  t.match(model, {
    'gen_ai.operation.name': 'chat',
    'gen_ai.request.model': 'parrot-1',
    'gen_ai.provider.name': 'forest',
    'gen_ai.usage.input_tokens': 7,
    'gen_ai.usage.output_tokens': 2,
  })
  t.type(model['gen_ai.response.time_to_first_chunk'], 'number')
  t.match(attributesOf('execute_tool look_up'), {
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': 'look_up',
  })
  t.match(spans.find(({ name }) => name === 'execute_tool broken')!.status, { code: 2, message: 'no such word' })
  for (const { service } of spans) t.equal(service, 'shop', 'OTEL_SERVICE_NAME')

  const asked = await run(5, 'ask')
  t.equal(asked.attributesOf('question')['weft.span.status'], 'interrupted')
  t.same(
    asked.spans.filter(({ status }) => status.code === 2),
    [],
  )
})
