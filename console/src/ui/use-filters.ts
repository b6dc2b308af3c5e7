/** The filters of a page, kept in its address: a reload and a shared link show the same. */
import { useSearchParams } from 'wouter'

type Filters = { [name: string]: string | undefined }

/** The second value changes some filters, without a new entry in the history; an empty one is left out. */
export function useFilters(): [Filters, (changes: { [name: string]: string }) => void] {
  const [params, setParams] = useSearchParams()
  const change = (changes: { [name: string]: string }) =>
    setParams(
      last => {
        const next = new URLSearchParams(last)
        for (const [name, value] of Object.entries(changes)) {
          if (value === '') next.delete(name)
          else next.set(name, value)
        }
        return next
      },
      { replace: true },
    )
  return [Object.fromEntries(params), change]
}
