/** `weft runs spans`: the recorded parts of a run as a tree. */
import type { RunSpan, RunSpans } from '../../schemas/trace.js'
import { printJson, printTable } from '../terminal/text.js'
import { type ClientFlags, openClient } from './client.js'

const HEADS = ['part', 'type', 'status', 'time', 'tokens', 'model, error']

export async function showSpans(run_id: string, flags: ClientFlags): Promise<void> {
  const client = openClient(flags)
  const found = await client.ask<RunSpans>('GET', `/runs/${encodeURIComponent(run_id)}/spans`, { patient: true })
  if (flags.json) return printJson(found)
  printTable(HEADS, rowsBelow(found.spans, null, 0))
  if (found.left_out > 0) process.stdout.write(`${found.left_out} more parts were not recorded\n`)
}

const rowsBelow = (spans: readonly RunSpan[], parent: string | null, depth: number): string[][] =>
  spans
    .filter(({ parent_id }) => parent_id === parent)
    .flatMap(span => [cells(span, depth), ...rowsBelow(spans, span.id, depth + 1)])

function cells(span: RunSpan, depth: number): string[] {
  const { name, type, attempt, status, duration_ms, input_tokens, output_tokens, model, error } = span
  const label = type === 'graph' && attempt > 1 ? `${name} (attempt ${attempt})` : name
  const hasTokens = input_tokens !== null || output_tokens !== null
  return [
    `${'  '.repeat(depth)}${label}`,
    type,
    status,
    duration_ms === null ? '' : `${duration_ms} ms`,
    hasTokens ? `${input_tokens ?? '?'} → ${output_tokens ?? '?'}` : '',
    [model, error].filter(Boolean).join('  '),
  ]
}
