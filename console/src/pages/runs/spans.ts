/** The recorded parts of a run, while it runs and afterwards. */
import { useState } from 'react'
import { ask } from '../../api/client'
import { type Loaded, useLoad } from '../../api/load'

/** RunSpans of the server's schemas/trace.ts. */
export interface Spans {
  status: string
  spans: Span[]
  left_out: number
}
export interface Span {
  id: string
  parent_id: string | null
  attempt: number
  type: string
  name: string
  status: 'running' | 'ok' | 'error' | 'interrupted' | 'cancelled' | 'lost'
  started_at: string
  duration_ms: number | null
  error: string | null
  model: string | null
  input_tokens: number | null
  output_tokens: number | null
  first_token_ms: number | null
}

const EVERY_MS = 1_500
const ACTIVE = ['pending', 'running']

export function useSpans(threadId: string, runId: string): Loaded<Spans> {
  const path = `/threads/${threadId}/runs/${runId}/spans`
  const [over, setOver] = useState(false)
  return useLoad(
    path,
    async signal => {
      const answer = await ask<Spans>(path, { signal })
      setOver(!ACTIVE.includes(answer.status) && answer.spans.every(({ status }) => status !== 'running'))
      return answer
    },
    over ? {} : { every: EVERY_MS },
  )
}

/** The node that failed last, the innermost one. */
export const failedNodeOf = ({ spans }: Spans): string | null =>
  spans.findLast(({ type, status }) => status === 'error' && (type === 'node' || type === 'subgraph'))?.name ?? null
