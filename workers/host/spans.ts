/**
 * Records the parts of a run: nodes, also those of subgraphs, where they pass their gate (guards/node-gate.ts), and calls
 * of models and tools by a callback handler that nodes get with their config. A handler for the whole run would cost each
 * step of the library a tree of handlers; a node that calls nothing costs two time stamps. What has started or ended is
 * sent at most once a second, and at the end of the run: a short run sends one frame.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { type HostSpan, type HostSpans, MAX_SPANS, type SpanStatus, type SpanType } from '../../schemas/trace.js'
import { TransientMap } from '../../schemas/transient.js'

const FLUSH_MS = 1_000
const MAX_NAME = 256
const MAX_ERROR = 512
/** The library gives this tag to the call of a node. */
const NODE = 'graph:step:'
const HIDDEN = 'langsmith:hidden'

export interface Spans {
  /** For the whole run, where nodes pass no gate: it records them by the tags of their calls. */
  handlerOfRun(): object
  /** Records the node that `call` executes. */
  node<T>(config: NodeConfig, call: (config: NodeConfig) => Promise<T>): Promise<T>
  /** Ends the run: what has not ended was cancelled. Sends what has not been sent. */
  end(status: SpanStatus, error?: string): void
  /** Nothing more is sent. */
  drop(): void
}

export interface SpansOptions {
  graph_id: string
  attempt: number
  send(spans: HostSpans): void
  /** The run was ordered to stop: what fails from now on was cancelled. */
  isStopped(): boolean
  /** Errors are recorded by their names only. */
  sealed: boolean
}

/** A call of the library that has not ended. */
interface Call {
  /** Its own span, or that of the call around it. */
  span: HostSpan
  isOwn: boolean
}
interface Answer {
  generations?: { message?: AnswerMessage }[][]
  llmOutput?: { tokenUsage?: { promptTokens?: number; completionTokens?: number }; model_name?: string }
}
interface AnswerMessage {
  usage_metadata?: { input_tokens?: number; output_tokens?: number }
  response_metadata?: { model_name?: string; model?: string }
}
interface Extra {
  invocation_params?: { model?: unknown; model_name?: unknown; modelName?: unknown }
}
interface Metadata {
  ls_model_name?: unknown
  ls_provider?: unknown
}
interface Manager {
  handlers: readonly { name?: string }[]
  _parentRunId?: string
  copy(more: object[]): unknown
}

/** The config with which the library invokes a node. */
export type NodeConfig = { metadata?: { langgraph_node?: unknown }; tags?: string[]; callbacks?: unknown } | undefined

/** The node whose code this is. */
const current = new AsyncLocalStorage<HostSpan>()

interface Component {
  id?: string[]
}

export function recordSpans({ graph_id, attempt, send, isStopped, sealed }: SpansOptions): Spans {
  const graph: HostSpan = {
    id: 0,
    parent: null,
    type: 'graph',
    name: graph_id.slice(0, MAX_NAME),
    start: now(),
    end: null,
    status: 'running',
  }
  const calls = new TransientMap<string, Call>()
  const open = new Set([graph])
  const changed = new Set([graph])
  let count = 1
  let left_out = 0
  let timer: NodeJS.Timeout | null = null
  let over = false
  let isOfRun = false

  function change(span: HostSpan): void {
    // A node may go on after the end of its run.
    if (over) return
    changed.add(span)
    timer ??= setTimeout(flush, FLUSH_MS).unref()
  }

  function flush(): void {
    if (timer !== null) clearTimeout(timer)
    timer = null
    if (changed.size === 0) return
    const spans = [...changed].sort((a, b) => a.id - b.id)
    changed.clear()
    send({ attempt, spans, left_out })
  }

  const around = (parent: string | undefined): HostSpan =>
    (parent && calls.get(parent)?.span) || current.getStore() || graph

  function start(run: string, parent: string | undefined, type: SpanType, name: string): HostSpan | null {
    const above = around(parent)
    const span = add(above, type, name)
    calls.set(run, { span: span ?? above, isOwn: span !== null })
    return span
  }

  /** Null: there are too many. */
  function add(above: HostSpan, type: SpanType, name: string): HostSpan | null {
    if (count === MAX_SPANS) {
      left_out++
      return null
    }
    const span: HostSpan = {
      id: count++,
      parent: above.id,
      type,
      name: name.slice(0, MAX_NAME),
      start: now(),
      end: null,
      status: 'running',
    }
    if (type === 'node' && above.type === 'node') {
      above.type = 'subgraph'
      change(above)
    }
    open.add(span)
    change(span)
    return span
  }

  function close(span: HostSpan, status: SpanStatus, error?: string): void {
    open.delete(span)
    span.end = now()
    span.status = status
    if (error !== undefined) span.error = firstLine(error)
    change(span)
  }

  /** The span of the call itself; null for a call inside of one. */
  function ended(run: string): HostSpan | null {
    const call = calls.get(run)
    calls.delete(run)
    return call?.isOwn ? call.span : null
  }

  function fail(error: unknown, run: string): void {
    const span = ended(run)
    if (span !== null) closeFailed(span, error)
  }

  function closeFailed(span: HostSpan, error: unknown): void {
    const { name, message, is_bubble_up } = asError(error)
    // A jump to a node of the parent graph is thrown, too.
    if (is_bubble_up) close(span, name === 'ParentCommand' ? 'ok' : 'interrupted')
    else if (isStopped()) close(span, 'cancelled')
    else close(span, 'error', sealed ? name : message || name)
  }

  function succeed(_output: unknown, run: string): void {
    const span = ended(run)
    if (span !== null) close(span, 'ok')
  }

  function startModel(
    model: Component,
    _input: unknown,
    run: string,
    parent?: string,
    extra: Extra = {},
    _tags?: unknown,
    metadata: Metadata = {},
    name?: string,
  ): void {
    const span = start(run, parent, 'model', name ?? nameOf(model, 'model'))
    if (span === null) return
    const { model: a, model_name: b, modelName: c } = extra.invocation_params ?? {}
    const asked = [metadata.ls_model_name, a, b, c].find(each => typeof each === 'string')
    if (typeof asked === 'string') span.model = asked.slice(0, MAX_NAME)
    if (typeof metadata.ls_provider === 'string') span.provider = metadata.ls_provider.slice(0, MAX_NAME)
  }

  const handler = {
    name: 'weft_spans',
    // Called before the call starts, and not from a queue.
    awaitHandlers: true,
    ignoreLLM: false,
    ignoreChain: false,
    ignoreAgent: false,
    ignoreRetriever: true,
    ignoreCustomEvent: true,
    handleChainStart(
      _chain: unknown,
      _inputs: unknown,
      run: string,
      parent?: string,
      tags: readonly string[] = [],
      _metadata?: unknown,
      _type?: string,
      name = 'node',
    ) {
      if (isOfRun && tags.some(tag => tag.startsWith(NODE)) && !tags.includes(HIDDEN)) start(run, parent, 'node', name)
      else calls.set(run, { span: around(parent), isOwn: false })
    },
    handleChainEnd: succeed,
    handleChainError: fail,
    handleToolStart(
      tool: Component,
      _input: unknown,
      run: string,
      parent?: string,
      _tags?: unknown,
      _metadata?: unknown,
      name?: string,
    ) {
      start(run, parent, 'tool', name ?? nameOf(tool, 'tool'))
    },
    handleToolEnd: succeed,
    handleToolError: fail,
    handleLLMStart: startModel,
    handleChatModelStart: startModel,
    handleLLMNewToken(_token: string, _place: unknown, run: string) {
      const call = calls.get(run)
      if (call?.isOwn) call.span.first_token ??= now()
    },
    handleLLMEnd(answer: Answer, run: string) {
      const span = ended(run)
      if (span === null) return
      Object.assign(span, usageOf(answer))
      close(span, 'ok')
    },
    handleLLMError: fail,
  }

  /** The handler is added to what the node has: it may be part of a graph that a node or a tool of this run calls. */
  function withHandler(callbacks: unknown): unknown {
    if (callbacks === undefined || callbacks === null) return [handler]
    if (Array.isArray(callbacks)) return [...callbacks, handler]
    const manager = callbacks as Manager
    return manager.handlers.some(({ name }) => name === handler.name) ? manager : manager.copy([handler])
  }

  return {
    handlerOfRun() {
      isOfRun = true
      return handler
    },
    async node(config, call) {
      const name = config?.metadata?.langgraph_node
      // `__start__` writes the input.
      if (over || typeof name !== 'string' || name.startsWith('__')) return call(config)
      const span = add(around((config?.callbacks as Manager | undefined)?._parentRunId), 'node', name)
      const changed = { ...config, callbacks: withHandler(config?.callbacks) }
      if (span === null) return call(changed)
      try {
        const output = await current.run(span, call, changed)
        close(span, 'ok')
        return output
      } catch (error) {
        closeFailed(span, error)
        throw error
      }
    },
    end(status, error) {
      for (const span of open) if (span !== graph) close(span, 'cancelled')
      close(graph, status, sealed ? undefined : error)
      flush()
      over = true
    },
    drop() {
      over = true
      changed.clear()
      flush()
    },
  }
}

/** The tokens and the model of an answer, as far as the model reports them. */
function usageOf({ generations = [], llmOutput }: Answer): Partial<HostSpan> {
  const { usage_metadata, response_metadata } = generations[0]?.[0]?.message ?? {}
  const input_tokens = usage_metadata?.input_tokens ?? llmOutput?.tokenUsage?.promptTokens
  const output_tokens = usage_metadata?.output_tokens ?? llmOutput?.tokenUsage?.completionTokens
  const model = response_metadata?.model_name ?? response_metadata?.model ?? llmOutput?.model_name
  return {
    ...(isCount(input_tokens) && { input_tokens }),
    ...(isCount(output_tokens) && { output_tokens }),
    ...(typeof model === 'string' && { model: model.slice(0, MAX_NAME) }),
  }
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0

const nameOf = ({ id }: Component, otherwise: string): string => id?.at(-1) ?? otherwise

const firstLine = (text: string): string => text.split('\n', 1)[0]!.slice(0, MAX_ERROR)

function asError(error: unknown): { name: string; message: string; is_bubble_up?: boolean } {
  if (typeof error !== 'object' || error === null) return { name: 'Error', message: String(error) }
  const { name, message, is_bubble_up } = error as { name?: unknown; message?: unknown; is_bubble_up?: unknown }
  return { name: String(name ?? 'Error'), message: String(message ?? ''), is_bubble_up: is_bubble_up === true }
}

const now = (): number => performance.timeOrigin + performance.now()
