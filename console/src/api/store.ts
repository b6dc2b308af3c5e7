/** A value outside the components that they can follow. */
import { useSyncExternalStore } from 'react'

export interface Store<T> {
  get(): T
  change(part: Partial<T>): void
  follow(listener: () => void): () => void
}

export function createStore<T extends object>(value: T): Store<T> {
  const listeners = new Set<() => void>()
  return {
    get: () => value,
    change(part) {
      value = { ...value, ...part }
      for (const listener of listeners) listener()
    },
    follow(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}

export const useStore = <T extends object>({ follow, get }: Store<T>): T => useSyncExternalStore(follow, get)
