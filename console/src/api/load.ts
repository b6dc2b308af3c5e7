/** Data of the server in a component: loaded, loaded again, and followed while the page is visible. */
import { useCallback, useEffect, useRef, useState } from 'react'
import { connection } from './connection'
import { session } from './session'
import { useStore } from './store'

export interface Loaded<T> {
  /** The last data, also while it is loaded again or when that fails. */
  data: T | undefined
  error: unknown
  loading: boolean
  reload(): void
}

interface LoadOptions {
  /** Milliseconds between two loads; absent: once. */
  every?: number
}

/** `key` names what is loaded: other data begin with nothing. */
export function useLoad<T>(
  key: string,
  load: (signal: AbortSignal) => Promise<T>,
  { every }: LoadOptions = {},
): Loaded<T> {
  const { epoch } = useStore(connection)
  const { credentials } = useStore(session)
  const [round, setRound] = useState(0)
  const [state, setState] = useState<{ key: string; data?: T; error?: unknown; loading: boolean }>({
    key,
    loading: true,
  })
  const latest = useRef(load)
  latest.current = load

  // The key identifies the loaded data; the other dependencies follow from it.
  useEffect(() => {
    const controller = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    const run = async () => {
      if (document.visibilityState === 'visible' || every === undefined) {
        try {
          const data = await latest.current(controller.signal)
          if (controller.signal.aborted) return
          setState({ key, data, loading: false })
        } catch (error) {
          if (controller.signal.aborted) return
          setState(last => ({ key, data: last.key === key ? last.data : undefined, error, loading: false }))
        }
      }
      if (every !== undefined) timer = setTimeout(run, every)
    }
    setState(last => (last.key === key ? { ...last, loading: true } : { key, loading: true }))
    void run()
    return () => {
      controller.abort()
      clearTimeout(timer)
    }
  }, [key, round, epoch, credentials, every])

  const reload = useCallback(() => setRound(last => last + 1), [])
  const isOther = state.key !== key
  return {
    data: isOther ? undefined : state.data,
    error: isOther ? undefined : state.error,
    loading: isOther || state.loading,
    reload,
  }
}
