/** The actions on a whole thread: open it in Chat, copy, export and delete it. */
import { Link, useLocation } from 'wouter'
import { client } from '../../api/client'
import { countWaiting } from '../../api/waiting'
import { Button } from '../../ui/button'
import { Icon } from '../../ui/icon'
import { Trouble } from '../../ui/notice'
import { useSending } from '../../ui/use-sending'

interface ThreadActionsProps {
  threadId: string
  title: string
}

/** States in an export. */
const STATES = 200

export function ThreadActions({ threadId, title }: ThreadActionsProps) {
  const [, go] = useLocation()
  const { busy, error, send } = useSending(() => {})
  const copy = async () => {
    // The types of the SDK lack the answer.
    const { thread_id } = (await client.threads.copy(threadId)) as unknown as { thread_id: string }
    go(`/threads/${thread_id}`)
  }
  const remove = async () => {
    await client.threads.delete(threadId)
    void countWaiting()
    go('/threads')
  }
  return (
    <>
      <Link href={`/chat/${threadId}`} className="button">
        <Icon name="chat" />
        Open in Chat
      </Link>
      <Button icon="copy" disabled={busy} onClick={() => void send(copy)}>
        Copy
      </Button>
      <Button icon="down" disabled={busy} onClick={() => void send(() => exportThread(threadId))}>
        Export
      </Button>
      <Button
        kind="danger"
        icon="trash"
        disabled={busy}
        onClick={() => {
          if (confirm(`Delete the thread “${title}”, with its runs and checkpoints?`)) void send(remove)
        }}
      >
        Delete
      </Button>
      <Trouble error={error} />
    </>
  )
}

/** Saves the thread and its states as one JSON document. */
async function exportThread(threadId: string): Promise<void> {
  const [thread, history] = await Promise.all([
    client.threads.get(threadId),
    client.threads.getHistory(threadId, { limit: STATES }),
  ])
  const text = JSON.stringify({ thread, history }, null, 2)
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([text], { type: 'application/json' }))
  link.download = `thread-${threadId}.json`
  link.click()
  URL.revokeObjectURL(link.href)
}
