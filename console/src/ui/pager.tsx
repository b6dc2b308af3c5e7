import { Button } from './button'

interface PagerProps {
  offset: number
  size: number
  /** Rows of this page; undefined while they load. */
  shown: number | undefined
  /** Gets the offset for the address: empty for the first page. */
  go: (offset: string) => void
}

/** To the pages before and after, when there are any. */
export function Pager({ offset, size, shown, go }: PagerProps) {
  const isFull = shown !== undefined && shown >= size
  if (offset === 0 && !isFull) return null
  const to = (next: number) => go(next <= 0 ? '' : String(next))
  return (
    <nav className="actions pager" aria-label="Pages of the list">
      <Button icon="left" disabled={offset === 0} onClick={() => to(offset - size)}>
        Newer
      </Button>
      <span className="muted">{shown === undefined || shown === 0 ? '' : `${offset + 1} to ${offset + shown}`}</span>
      <Button icon="right" disabled={!isFull} onClick={() => to(offset + size)}>
        Older
      </Button>
    </nav>
  )
}
