/**
 * The store that the application brings (`store.path` of langgraph.json) for resource workers, in an app host that is started
 * with the worker: `/store` and all graphs, in both languages, reach one store, which is opened once.
 */
import { type AppHost, type AppHostOptions, openAppHost } from '../child/app-host.js'

/** The caller waits this long (resources/items/app-store.ts). */
const ITEMS_MS = 30_000

export interface AppStore extends Pick<AppHost, 'stop'> {
  /** Passes an ItemBatch as JSON on; resolves to the JSON of its answers. Rejects as AppHost.call does. */
  call(batch: Uint8Array): Promise<Uint8Array>
}

/** Throws an Error with one sentence when the store cannot be opened: the application is not served without it. */
export async function openAppStore(options: Omit<AppHostOptions, 'parts'>): Promise<AppStore> {
  const host = openAppHost({ ...options, parts: ['store'] })
  const { error } = await host.hello
  if (error === null) return { call: batch => host.call({ verb: 'items' }, batch, ITEMS_MS), stop: host.stop }
  await host.stop()
  throw new Error(`the application cannot be served: ${error}`)
}
