import { useState } from 'react'
import type { Loaded } from '../../api/load'
import { Icon } from '../../ui/icon'
import { LoadedView } from '../../ui/notice'
import { durationText } from '../../ui/time'
import type { Span, Spans } from './spans'
import '../../styles/waterfall.css'

/** The parts of a run, by nesting and by time. */
export const Waterfall = ({ of: spans }: { of: Loaded<Spans> }) => (
  <section className="card" aria-label="Waterfall">
    <LoadedView of={spans}>{found => <Rows {...found} />}</LoadedView>
  </section>
)

function Rows({ spans, left_out }: Spans) {
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set())
  const toggle = (id: string) =>
    setClosed(last => new Set(last.has(id) ? [...last].filter(each => each !== id) : [...last, id]))
  const startOf = ({ started_at }: Span) => Date.parse(started_at)
  const endOf = (span: Span) => startOf(span) + (span.duration_ms ?? 0)
  const from = Math.min(...spans.map(startOf))
  const known = Math.max(...spans.map(endOf))
  const until = spans.some(span => span.status === 'running') ? Math.max(known, Date.now()) : known
  const whole = Math.max(1, until - from)
  const attempts = new Set(spans.map(({ attempt }) => attempt)).size
  const tokens = (which: 'input_tokens' | 'output_tokens') => spans.reduce((sum, span) => sum + (span[which] ?? 0), 0)
  const [input, output] = [tokens('input_tokens'), tokens('output_tokens')]

  /** A span that was lost ended at an unknown time: its bar reaches the last sign of its attempt. */
  const lengthOf = (span: Span): number => {
    if (span.duration_ms !== null) return span.duration_ms
    if (span.status === 'running') return until - startOf(span)
    return Math.max(...spans.filter(({ attempt }) => attempt === span.attempt).map(endOf)) - startOf(span)
  }

  const rows = (parent: string | null, depth: number): React.ReactNode[] =>
    spans
      .filter(({ parent_id }) => parent_id === parent)
      .flatMap(span => {
        const hasParts = spans.some(({ parent_id }) => parent_id === span.id)
        const open = !closed.has(span.id)
        const row = (
          <Row
            key={span.id}
            span={span}
            depth={depth}
            open={hasParts ? open : null}
            label={parent === null && attempts > 1 ? `${span.name}, attempt ${span.attempt}` : span.name}
            left={(startOf(span) - from) / whole}
            width={lengthOf(span) / whole}
            onToggle={() => toggle(span.id)}
          />
        )
        return open ? [row, ...rows(span.id, depth + 1)] : [row]
      })

  return (
    <>
      <div className="state-head">
        <strong>Waterfall</strong>
        <span className="muted">
          {durationText(whole)}
          {input + output > 0 && `, ${input} + ${output} tokens`}
          {left_out > 0 && `, ${left_out} more parts were not recorded`}
        </span>
      </div>
      <ol className="waterfall">{rows(null, 0)}</ol>
    </>
  )
}

interface RowProps {
  span: Span
  depth: number
  /** Null: nothing is inside. */
  open: boolean | null
  label: string
  /** A part of the whole time, 0 to 1. */
  left: number
  width: number
  onToggle(): void
}

function Row({ span, depth, open, label, left, width, onToggle }: RowProps) {
  const { type, status, error, model, input_tokens, output_tokens, first_token_ms, duration_ms } = span
  const hasTokens = input_tokens !== null || output_tokens !== null
  const facts = [
    model,
    hasTokens && `${input_tokens ?? '?'} → ${output_tokens ?? '?'} tokens`,
    first_token_ms !== null && `first after ${durationText(first_token_ms)}`,
  ].filter(Boolean)
  return (
    <li className={status} style={{ '--indent': `${Math.min(depth, 8) * 14}px` } as React.CSSProperties}>
      <span className="waterfall-name">
        {open === null ? (
          <span className="waterfall-leaf">{label}</span>
        ) : (
          <button type="button" aria-expanded={open} onClick={onToggle}>
            <Icon name="right" />
            {label}
          </button>
        )}
        <span className="muted">{type}</span>
      </span>
      <span className="waterfall-line">
        <span
          className="waterfall-bar"
          style={{ marginInlineStart: `${left * 100}%`, width: `max(3px, ${Math.min(1 - left, width) * 100}%)` }}
        />
      </span>
      <span className="waterfall-time">
        {status !== 'ok' && <span className="waterfall-status">{status} </span>}
        {duration_ms !== null && durationText(duration_ms)}
      </span>
      {facts.length > 0 && <span className="waterfall-facts muted">{facts.join(' · ')}</span>}
      {error !== null && <span className="waterfall-facts waterfall-error">{error}</span>}
    </li>
  )
}
