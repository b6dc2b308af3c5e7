/** The buttons of a run. */
import { Link, useLocation } from 'wouter'
import { Button } from '../../ui/button'
import { Icon } from '../../ui/icon'
import { Trouble } from '../../ui/notice'
import { useSending } from '../../ui/use-sending'
import { cancelRun, runAgain } from './actions'
import { hasEnded, type WholeRun } from './run-data'

interface RunActionsProps {
  run: WholeRun
  /** The id of its newest checkpoint; undefined: it has none. */
  end: string | null | undefined
  reload: () => void
}

export function RunActions({ run, end, reload }: RunActionsProps) {
  const [, go] = useLocation()
  const { busy, error, send } = useSending(reload)
  const again = () =>
    send(async () => {
      const { thread_id, run_id } = await runAgain(run)
      go(`/runs/${thread_id}/${run_id}`)
    })
  return (
    <>
      <Trouble error={error} />
      {!run.kwargs.temporary && (
        <Link href={`/threads/${run.thread_id}${!end ? '' : `?checkpoint=${end}`}`} className="button">
          <Icon name="thread" />
          {!end ? 'Open the thread' : 'Open the thread at its end'}
        </Link>
      )}
      <Button
        icon="redo"
        disabled={busy}
        onClick={again}
        title="The same input, assistant, config, context and webhook"
      >
        Run again
      </Button>
      {!hasEnded(run) && (
        <Button kind="danger" icon="stop" disabled={busy} onClick={() => send(() => cancelRun(run))}>
          Cancel
        </Button>
      )}
    </>
  )
}
