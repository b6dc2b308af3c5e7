/** One run: why it failed, what it is, what went in and came out, and what happened between. */
import { useState } from 'react'
import { ask } from '../../api/client'
import { useLoad } from '../../api/load'
import { CopyButton } from '../../ui/copy'
import { Json } from '../../ui/json'
import { Empty, Failure as Failed, Skeleton, Trouble } from '../../ui/notice'
import { Page } from '../../ui/page'
import { RunActions } from './actions-bar'
import { Deliveries } from './deliveries'
import { EventCard } from './event-card'
import { useEvents } from './events'
import { Facts } from './facts'
import { Failure } from './failure'
import { LogCard } from './log-card'
import { type Execution, hasEnded, type WholeRun, wholeRun } from './run-data'
import { useSpans } from './spans'
import { StepCard } from './step-card'
import { stepsOf, useStates } from './steps'
import { Values } from './values'
import { Waterfall } from './waterfall'

const EVERY_MS = 2_000
const NOT_FOUND = 404

export function RunView({ threadId, runId }: { threadId: string; runId: string }) {
  const [isOver, setOver] = useState(false)
  const run = useLoad(
    runId,
    async signal => {
      const found = await wholeRun(threadId, runId, signal)
      setOver(hasEnded(found))
      return found
    },
    { every: isOver ? undefined : EVERY_MS },
  )
  const { data, error, reload } = run
  if (data !== undefined) return <Loaded run={data} error={error} reload={reload} />
  return (
    <Page title={<Title runId={runId} />}>
      {(error as { status?: number } | undefined)?.status === NOT_FOUND ? (
        <Empty title="There is no such run" icon="runs">
          A run without a thread is removed about a minute after its end, and any run with its thread.
        </Empty>
      ) : error === undefined ? (
        <Skeleton />
      ) : (
        <Failed error={error} retry={reload} />
      )}
    </Page>
  )
}

const Title = ({ runId }: { runId: string }) => (
  <span className="run-title">
    Run <span className="mono run-id">{runId}</span>
    <CopyButton text={runId} label="Copy the id" />
  </span>
)

function Loaded({ run, error, reload }: { run: WholeRun; error: unknown; reload: () => void }) {
  const { run_id, thread_id, kwargs, status, updated_at } = run
  const execution = useLoad(
    `execution ${run_id} ${status} ${updated_at}`,
    signal => ask<Execution>(`/runs/${run_id}/execution`, { signal }),
    // The reason why a pending run waits changes while the run does not.
    { every: status === 'pending' ? EVERY_MS : undefined },
  )
  const events = useEvents(thread_id, run_id)
  const states = useStates(run)
  const spans = useSpans(thread_id, run_id)
  // They are not known yet, or there are some: then the nodes are among them.
  const hasSpans = spans.data === undefined ? spans.error === undefined : spans.data.spans.length > 0
  const steps = stepsOf(run, states.data ?? null, events.list, execution.data)
  const { input, ...request } = kwargs
  const end =
    states.data?.list.find(({ metadata }) => (metadata as { run_id?: string } | null)?.run_id === run_id) ?? null
  return (
    <Page
      title={<Title runId={run_id} />}
      actions={<RunActions run={run} end={end?.checkpoint.checkpoint_id} reload={reload} />}
    >
      <Trouble error={error} />
      <Failure run={run} steps={steps.list} spans={spans.data ?? null} />
      <Facts run={run} execution={execution.data ?? null} attempt={events.attempt} />
      <Values run={run} end={end} />
      {hasSpans ? (
        <Waterfall of={spans} />
      ) : (
        <StepCard
          run={run}
          steps={steps}
          isLoading={states.loading && states.data === undefined}
          error={states.error}
        />
      )}
      <LogCard run={run} />
      {kwargs.webhook !== null && <Deliveries threadId={thread_id} runId={run_id} />}
      <EventCard events={events} hasEnded={hasEnded(run)} hasSteps={!hasSpans && steps.list.length > 0} />
      <details className="card run-request">
        <summary>Request</summary>
        <div className="state-body">
          <Json value={{ ...request, metadata: run.metadata, multitask_strategy: run.multitask_strategy }} open={3} />
        </div>
      </details>
    </Page>
  )
}
