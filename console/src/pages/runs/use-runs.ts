/** The runs of a filter, newest first: pages that a person asks for, and what happens meanwhile. */
import { useEffect, useRef, useState } from 'react'
import { connection } from '../../api/connection'
import { session } from '../../api/session'
import { useStore } from '../../api/store'
import { type Filter, queryOf } from './filter'
import { isBeyond, type Run, type RunPage, searchRuns } from './run-data'

export const PAGE = 100
const MOST = 1_000
const EVERY_MS = 3_000
/** The server has no index of errors: such a search reads them. */
const EVERY_WITH_TEXT_MS = 15_000

interface Listed {
  /** The filter that it is the answer to. */
  key: string
  rows: readonly Run[]
  next: string | null
  isLoaded: boolean
  error: unknown
}

const nothing = (key: string): Listed => ({ key, rows: [], next: null, isLoaded: false, error: null })

export function useRuns(filter: Filter) {
  const key = `${queryOf({ ...filter, live: true })}`
  const { epoch } = useStore(connection)
  const { credentials } = useStore(session)
  const [round, setRound] = useState(0)
  const [listed, setListed] = useState(() => nothing(key))
  const [isReading, setReading] = useState(false)
  const shown = listed.key === key ? listed : nothing(key)
  const latest = useRef({ filter, shown })
  latest.current = { filter, shown }
  const more = useRef(new AbortController())

  // The key stands for the filter.
  useEffect(() => {
    const controller = new AbortController()
    more.current = controller
    let timer: ReturnType<typeof setTimeout> | undefined
    const { filter } = latest.current
    const every = filter.text === '' ? EVERY_MS : EVERY_WITH_TEXT_MS
    const change = (to: (last: Listed) => Listed) =>
      !controller.signal.aborted && setListed(last => to(last.key === key ? last : nothing(key)))
    const read = async () => {
      const { rows, isLoaded } = latest.current.shown
      if (document.visibilityState === 'visible' || !isLoaded)
        try {
          const size = Math.min(MOST, Math.max(PAGE, rows.length))
          const page = await searchRuns(filter, { size, signal: controller.signal })
          change(last => ({ ...last, ...merged(last, page, size), isLoaded: true, error: null }))
        } catch (error) {
          change(last => ({ ...last, error }))
        }
      if (filter.live && !controller.signal.aborted) timer = setTimeout(read, every)
    }
    void read()
    return () => {
      controller.abort()
      clearTimeout(timer)
    }
  }, [key, filter.live, epoch, credentials, round])

  async function readMore(): Promise<void> {
    const { signal } = more.current
    setReading(true)
    try {
      const { rows, next } = await searchRuns(filter, { size: PAGE, cursor: shown.next, signal })
      setListed(last => (last.key === key ? { ...last, rows: joined(last.rows, rows), next, error: null } : last))
    } catch (error) {
      if (!signal.aborted) setListed(last => (last.key === key ? { ...last, error } : last))
    } finally {
      setReading(false)
    }
  }

  return { ...shown, isReading, readMore, reload: () => setRound(last => last + 1) }
}

/** The newest runs again, before those that were read earlier and are older. */
function merged({ rows, next }: Listed, page: RunPage, size: number): RunPage {
  const end = page.next
  if (end === null) return page
  const older = rows.filter(row => isBeyond(row, end))
  // So many are new that those between the two parts were not read.
  const isTorn = older.length === rows.length && page.rows.length >= size
  if (isTorn || rows.length === 0) return page
  // It ends with the same run: what is known of those behind it holds.
  if (older.length === 0) return page.rows.at(-1)?.run_id === rows.at(-1)?.run_id ? { ...page, next } : page
  return { rows: joined(page.rows, older), next }
}

function joined(rows: readonly Run[], more: readonly Run[]): Run[] {
  const known = new Set(rows.map(({ run_id }) => run_id))
  return [...rows, ...more.filter(({ run_id }) => !known.has(run_id))]
}
