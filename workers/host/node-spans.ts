/**
 * Measures the nodes of a traced run by a callback handler of the library, also those of subgraphs. The supervisor makes
 * spans of them: a host has no connection of its own.
 */
import type { HostSpan } from '../../schemas/trace.js'
import { TransientMap } from '../../schemas/transient.js'

/** Spans in a frame. */
const BATCH = 500
const MAX_NAME = 256
const MAX_ERROR = 1_024
/** The library gives this tag to the call of a node. */
const NODE = /^graph:step:/

export interface NodeSpans {
  handler: object
  /** Sends what has not been sent. */
  flush(): void
}

interface Open {
  parent: string | undefined
  /** Null for a call that is no node. */
  span: Omit<HostSpan, 'end' | 'error'> | null
}

export function measureNodes(send: (spans: HostSpan[]) => void): NodeSpans {
  const open = new TransientMap<string, Open>()
  let ended: HostSpan[] = []

  /** The node around a call. */
  function nodeAround(run: string | undefined): string | null {
    for (let at = run; at !== undefined; at = open.get(at)?.parent) if (open.get(at)?.span) return at
    return null
  }

  function flush(): void {
    if (ended.length === 0) return
    const spans = ended.sort((a, b) => a.start - b.start)
    ended = []
    send(spans)
  }

  function end(run: string, error: string | null): void {
    const span = open.get(run)?.span
    open.delete(run)
    if (!span) return
    ended.push({ ...span, end: now(), error })
    // The nodes around it must be sent with it, or before it.
    if (ended.length >= BATCH && span.parent === null) flush()
  }

  return {
    flush,
    handler: {
      name: 'weft_node_spans',
      // Called before the node starts.
      awaitHandlers: true,
      ignoreLLM: true,
      ignoreChain: false,
      ignoreAgent: true,
      ignoreRetriever: true,
      ignoreCustomEvent: true,
      handleChainStart(
        _chain: unknown,
        _inputs: unknown,
        run: string,
        parent?: string,
        tags: string[] = [],
        _metadata?: unknown,
        _type?: string,
        name = 'node',
      ) {
        const isNode = tags.some(tag => NODE.test(tag))
        const around = nodeAround(parent)
        const span = isNode ? { id: run, parent: around, name: name.slice(0, MAX_NAME), start: now() } : null
        open.set(run, { parent, span })
      },
      handleChainEnd: (_outputs: unknown, run: string) => end(run, null),
      handleChainError: (error: unknown, run: string) =>
        end(run, (error instanceof Error ? error.message : String(error)).slice(0, MAX_ERROR)),
    },
  }
}

const now = (): number => performance.timeOrigin + performance.now()
