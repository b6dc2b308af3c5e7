/**
 * Traces: one from the request through calls, the claim and the host to each part of a run, sent to a collector over OTLP/HTTP.
 * Without OTEL_EXPORTER_OTLP_ENDPOINT the process creates no tracer and does not load the SDK.
 */
import type { Attributes, Context, SpanKind as Kind, SpanContext } from '@opentelemetry/api'
import type { Config } from '../../schemas/config.js'
import type { HostSpan } from '../../schemas/trace.js'
import { TRACEPARENT } from '../../schemas/trace.js'
import type { Log } from '../log.js'
import { headersOf, resourceOf, urlAt } from './collector.js'

export interface Span {
  /** The traceparent of this span, for the work that it causes. */
  traceparent: string
  /** False: what is caused by it need not be measured. */
  isRecorded: boolean
  /** `error`: a sentence; absent or null: none. Only the first call counts. */
  end(error?: string | null): void
}

export interface SpanOptions {
  /** The kind of the span (OpenTelemetry: SpanKind); internal when absent. */
  kind?: 'server' | 'consumer'
  /** The traceparent of its cause. */
  parent?: string | undefined
  attributes?: Attributes
}

export interface Tracer {
  start(name: string, options?: SpanOptions): Span
  /** The parts of a run, as parts of `parent`; what has not ended is left out. */
  record(spans: readonly HostSpan[], parent: Span): void
  /** Sends what is left. */
  close(): Promise<void>
}

const CLOSE_MS = 2_000

/** Null when tracing is off. */
export async function openTracer(config: Config, role: string, log: Log): Promise<Tracer | null> {
  if (config.otlp_endpoint === '') return null
  const [api, sdk, { OTLPTraceExporter }] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/exporter-trace-otlp-http'),
  ])
  api.diag.setLogger(
    {
      error: message => log.warn({ detail: message }, 'traces could not be sent'),
      warn() {},
      info() {},
      debug() {},
      verbose() {},
    },
    { logLevel: api.DiagLogLevel.ERROR, suppressOverrideMessage: true },
  )
  const exporter = new OTLPTraceExporter({ url: urlAt(config, 'traces'), headers: headersOf(config) })
  const provider = new sdk.TracerProvider({
    resource: await resourceOf(role),
    sampler: new sdk.ParentBasedSampler({ root: new sdk.TraceIdRatioBasedSampler(config.trace_ratio) }),
    spanProcessors: [new sdk.BatchSpanProcessor({ exporter })],
  })
  const tracer = provider.getTracer('weft')
  const { ROOT_CONTEXT, trace, SpanStatusCode, SpanKind } = api
  const kinds: { [kind: string]: Kind } = { server: SpanKind.SERVER, consumer: SpanKind.CONSUMER }

  function contextOf(traceparent: string | undefined): Context {
    const parent = traceparent === undefined ? null : parse(traceparent)
    return parent === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parent)
  }

  return {
    start(name, { kind, parent, attributes = {} } = {}) {
      const options = { attributes, kind: kind === undefined ? SpanKind.INTERNAL : kinds[kind]! }
      const span = tracer.startSpan(name, options, contextOf(parent))
      return {
        traceparent: format(span.spanContext()),
        isRecorded: span.isRecording(),
        end(error = null) {
          if (!span.isRecording()) return
          if (error !== null) span.setStatus({ code: SpanStatusCode.ERROR, message: error })
          span.end()
        },
      }
    },
    record(spans, parent) {
      const contexts = new Map<number, string>()
      for (const part of spans) {
        // The span of the run stands for its graph.
        if (part.type === 'graph' || part.end === null) continue
        const within = (part.parent === null ? undefined : contexts.get(part.parent)) ?? parent.traceparent
        const { name, attributes } = genAi(part)
        const kind = part.type === 'model' ? SpanKind.CLIENT : SpanKind.INTERNAL
        const span = tracer.startSpan(name, { startTime: part.start, attributes, kind }, contextOf(within))
        contexts.set(part.id, format(span.spanContext()))
        // An interrupt is no error.
        if (part.status === 'error') span.setStatus({ code: SpanStatusCode.ERROR, message: part.error ?? '' })
        span.end(part.end)
      }
    },
    close: () =>
      Promise.race([
        provider.shutdown().catch(error => log.warn({ err: error }, 'the last traces could not be sent')),
        new Promise<void>(done => setTimeout(done, CLOSE_MS).unref()),
      ]),
  }
}

/** Names of the semantic conventions for generative AI (OpenTelemetry: gen_ai). */
function genAi(part: HostSpan): { name: string; attributes: Attributes } {
  const { type, name, model, provider, input_tokens, output_tokens, first_token, start, status } = part
  const common = {
    'weft.span.type': type,
    'weft.span.status': status,
    ...(status === 'error' && { 'error.type': '_OTHER' }),
  }
  if (type === 'tool')
    return {
      name: `execute_tool ${name}`,
      attributes: { ...common, 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': name },
    }
  if (type !== 'model') return { name, attributes: common }
  return {
    name: `chat ${model ?? name}`,
    attributes: {
      ...common,
      'gen_ai.operation.name': 'chat',
      ...(provider !== undefined && { 'gen_ai.provider.name': provider }),
      ...(model !== undefined && { 'gen_ai.request.model': model }),
      ...(input_tokens !== undefined && { 'gen_ai.usage.input_tokens': input_tokens }),
      ...(output_tokens !== undefined && { 'gen_ai.usage.output_tokens': output_tokens }),
      ...(first_token !== undefined && { 'gen_ai.response.time_to_first_chunk': (first_token - start) / 1_000 }),
    },
  }
}

const format = ({ traceId, spanId, traceFlags }: SpanContext): string =>
  `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`

function parse(traceparent: string): SpanContext | null {
  if (!TRACEPARENT.test(traceparent)) return null
  const [, traceId = '', spanId = '', flags = ''] = traceparent.split('-')
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true }
}
