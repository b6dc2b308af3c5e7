/**
 * The embedder of the application (`store.index` of langgraph.json) for resource workers, in an app host: beside graphs
 * it would delay their runs. The app host is started with the worker and kept, because models take long to load.
 */
import type { EmbedCall } from '../../schemas/app-host.js'
import { fail } from '../../schemas/errors.js'
import { type AppHost, type AppHostOptions, openAppHost } from '../child/app-host.js'

/** The caller waits this long (resources/vectors/embed.ts). */
const EMBED_MS = 30_000

export interface Embedder {
  /** Starts the app host, unless it is there already. */
  start(): void
  /** The vectors (schemas/app-host.ts). Throws as AppHost.call. */
  embed(call: EmbedCall): Promise<Uint8Array>
  stop(): Promise<void>
}

export function openEmbedder(options: AppHostOptions): Embedder {
  let host: AppHost | null = null
  const start = () => (host ??= openAppHost(options))
  return {
    start,
    async embed(call) {
      const { error } = await start().hello
      if (error !== null && !host!.isReady()) throw fail('unavailable', error)
      return host!.call(call, undefined, EMBED_MS)
    },
    async stop() {
      await host?.stop()
    },
  }
}
