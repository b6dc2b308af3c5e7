/** How many threads wait for a person, for the navigation. */
import { client } from './client'
import { createStore } from './store'

/** Null: not known, also when the session may not read it. */
export const waiting = createStore<{ count: number | null }>({ count: null })

export async function countWaiting(): Promise<void> {
  const count = await client.threads.count({ status: 'interrupted' }).catch(() => null)
  waiting.change({ count })
}
