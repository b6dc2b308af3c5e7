import { useEffect, useState } from 'react'
import { control } from '../../api/control'

export interface LogLine {
  id: string
  /** Milliseconds since the epoch. */
  timestamp: number
  level: string
  message: string
}

interface LogPage {
  logs: LogLine[]
  next_offset: string | null
}

const EVERY_MS = 1_000
/** Lines that are read at first, and those that are shown. */
const FIRST = 500
const SHOWN = 2_000
const PAGE = 1_000

/**
 * The last lines of a revision, and those that follow as they come. `stage`: build, deploy or runtime, or all of them in a
 * comma list.
 */
export function useLog(deployment: string, revision: string, stage: string) {
  const [log, setLog] = useState<{ lines: readonly LogLine[]; error: unknown }>({ lines: [], error: null })
  useEffect(() => {
    const controller = new AbortController()
    const { signal } = controller
    let timer: ReturnType<typeof setTimeout>
    let lines: LogLine[] = []
    const read = (query: { [name: string]: string | number }) => {
      const text = new URLSearchParams({ stage, ...query } as { [name: string]: string })
      return control<LogPage>(`/v2/deployments/${deployment}/revisions/${revision}/logs?${text}`, { signal })
    }

    /** Lines of one moment may be stored apart, so that moment is read again and known lines are dropped. */
    async function readNewer(last: LogLine): Promise<void> {
      let cursor: string | null = ''
      while (cursor !== null) {
        const page: LogPage = await read({
          order: 'asc',
          limit: PAGE,
          start_time: last.timestamp,
          ...(cursor === '' ? {} : { cursor }),
        })
        const known = new Set(lines.map(({ id }) => id))
        lines = [...lines, ...page.logs.filter(({ id }) => !known.has(id))].slice(-SHOWN)
        cursor = page.next_offset
      }
    }

    async function follow(): Promise<void> {
      try {
        if (document.visibilityState === 'visible') {
          const last = lines.at(-1)
          if (last === undefined) lines = (await read({ order: 'desc', limit: FIRST })).logs.reverse()
          else await readNewer(last)
          if (!signal.aborted) setLog(before => (before.lines === lines ? before : { lines, error: null }))
        }
      } catch (error) {
        if (!signal.aborted) setLog({ lines, error })
      }
      if (!signal.aborted) timer = setTimeout(follow, EVERY_MS)
    }
    setLog({ lines, error: null })
    void follow()
    return () => {
      controller.abort()
      clearTimeout(timer)
    }
  }, [deployment, revision, stage])
  return log
}
