import { useState } from 'react'

/** Carries out what a person asks for, once at a time; `done` runs when it worked. */
export function useSending(done: () => void) {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const send = async (work: () => Promise<unknown>) => {
    setBusy(true)
    setError(null)
    try {
      await work()
      done()
    } catch (error) {
      setError(error)
    } finally {
      setBusy(false)
    }
  }
  return { busy, error, send }
}
