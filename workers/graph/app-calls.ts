/**
 * Questions to code of the application beside runs. The embedder, the encryption, the store, user interfaces and most questions
 * about a graph have dedicated processes; a question about a thread goes to a host of runs.
 */
import type { Lifecycle } from '../../bus/lifecycle.js'
import { bytesHandler, type Handler, jsonHandler } from '../../bus/serve.js'
import { type EmbedCall, type UiCall, validateEmbedCall, validateUiCall } from '../../schemas/app-host.js'
import type { SchemasCall } from '../../schemas/host.js'
import type { startAppHost } from './app-host.js'
import { type DescriberOptions, openDescriber } from './describer.js'
import { openEmbedder } from './embedder.js'
import { callIn } from './host-calls.js'
import type { startPools } from './pools.js'
import type { openAppStore, openEncryptor } from './required-parts.js'
import type { openSupervisor } from './supervisor.js'
import { openUserInterfaces } from './user-interfaces.js'

interface Options {
  /** How a child with code of the application is started. */
  child: Omit<DescriberOptions, 'onFrame' | 'onExit'> &
    Parameters<typeof openUserInterfaces>[0] &
    Omit<Parameters<typeof openEmbedder>[0], 'parts'>
  life: Lifecycle
  supervisor: ReturnType<typeof openSupervisor>
  hosts: ReturnType<typeof startPools>
  appHost: Awaited<ReturnType<typeof startAppHost>>
  appStore: Awaited<ReturnType<typeof openAppStore>> | null
  encryptor: Awaited<ReturnType<typeof openEncryptor>> | null
  /** The application has `store.index`: its embedder is started at once. */
  indexes: boolean
}

export interface AppCalls {
  handlers: { [verb: string]: Handler }
  /** Whether the worker answers this question now. */
  isReady(verb: string): boolean
  /** The host keeps on disk what it reads of the types of a graph; this question brings it there. Never rejects. */
  readTypes(graph_id: string): Promise<void>
}

export function openAppCalls(options: Options): AppCalls {
  const { child, life, supervisor, hosts, appHost, appStore, encryptor, indexes } = options
  const describer = openDescriber({ ...child, onFrame: supervisor.onFrame, onExit: supervisor.onHostEnd })
  life.push({ name: 'describer', stop: () => describer.stop() })
  const embedder = openEmbedder({ ...child, parts: ['embed'] })
  life.push({ name: 'embedder', stop: () => embedder.stop() })
  if (indexes) embedder.start()
  const interfaces = openUserInterfaces(child)
  life.push({ name: 'user interfaces', stop: () => interfaces.stop() })
  const call = bytesHandler(bytes => supervisor.callAny(hosts.pickForCall, bytes))
  const describe = bytesHandler(async bytes => {
    const { graph_id } = callIn(bytes)
    return supervisor.call(hosts.pickIdle(graph_id) ?? (await describer.host(hosts.languageOf(graph_id))), bytes)
  })
  const onThreads = { state: call, history: call, update: call, forget: call }
  const handlers: { [verb: string]: Handler } = {
    ...onThreads,
    ...{ draw: describe, schemas: describe, subgraphs: describe },
    embed: jsonHandler<EmbedCall>(validateEmbedCall, async call => ({ body: await embedder.embed(call) })),
    ui: jsonHandler<UiCall>(validateUiCall, async call => ({ body: await interfaces.bundle(call) })),
    start: bytesHandler(supervisor.take),
  }
  if (appHost !== null) handlers.check = bytesHandler(async bytes => ({ body: await appHost.check(bytes) }))
  if (appStore !== null) handlers.items = bytesHandler(async bytes => ({ body: await appStore.call(bytes) }))
  if (encryptor !== null) handlers.encrypt = bytesHandler(async bytes => ({ body: await encryptor.call(bytes) }))
  return {
    handlers,
    isReady: verb =>
      verb in onThreads ? hosts.canAnswer() : verb !== 'check' || appHost === null || appHost.isReady(),
    async readTypes(graph_id) {
      const question: SchemasCall = { verb: 'schemas', graph_id, thread_id: '', config: {} }
      const ask = async () => supervisor.call(await describer.host('javascript'), Buffer.from(JSON.stringify(question)))
      await ask().catch(error => child.log.debug({ err: error, graph_id }, 'the types of graphs are not read yet'))
    },
  }
}
