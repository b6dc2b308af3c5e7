/** The latest threads by their first message. */
import { ask } from '../../api/client'
import { useLoad } from '../../api/load'
import { Button } from '../../ui/button'
import { LoadedView } from '../../ui/notice'
import { Ago } from '../../ui/time'
import { TITLE, type Titled, titleOf } from '../threads/title'

interface Row extends Titled {
  status: string
  updated_at: string
}

interface ThreadListProps {
  /** On a phone. */
  open: boolean
  chosen: string[]
  onChoose: (id: string) => void
  onBeside: (id: string) => void
  onNew: () => void
}

const EVERY_MS = 5_000
const SEARCH = {
  limit: 50,
  sort_by: 'updated_at',
  sort_order: 'desc',
  select: ['thread_id', 'status', 'updated_at', 'metadata'],
  extract: TITLE,
}

export function ThreadList({ open, chosen, onChoose, onBeside, onNew }: ThreadListProps) {
  const threads = useLoad(
    `threads ${chosen}`,
    signal => ask<Row[]>('/threads/search', { method: 'POST', body: SEARCH, signal }),
    { every: EVERY_MS },
  )
  return (
    <aside className={`thread-list ${open ? 'open' : ''}`} aria-label="Threads">
      <Button icon="plus" onClick={onNew}>
        New thread
      </Button>
      <LoadedView of={threads}>
        {rows => (
          <ul>
            {rows.map(({ thread_id, status, updated_at, ...named }) => (
              <li key={thread_id} className={chosen.includes(thread_id) ? 'chosen' : ''}>
                <button
                  type="button"
                  className="thread"
                  aria-current={chosen.includes(thread_id) ? 'true' : undefined}
                  onClick={() => onChoose(thread_id)}
                >
                  <span>{titleOf({ thread_id, ...named })}</span>
                  <small className={`muted thread-${status}`}>
                    {status === 'idle' ? null : `${status} · `}
                    <Ago at={updated_at} />
                  </small>
                </button>
                {!chosen.includes(thread_id) && (
                  <Button kind="ghost" icon="columns" label="Open beside" onClick={() => onBeside(thread_id)} />
                )}
              </li>
            ))}
            {rows.length === 0 && <li className="muted thread-none">Threads appear here.</li>}
          </ul>
        )}
      </LoadedView>
    </aside>
  )
}
