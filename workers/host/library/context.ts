/**
 * For every call of a Runnable the library makes a LangSmith run, even while nothing is traced, only to carry the
 * config of that call in its async context. This cost 14 % of the CPU time of a busy host, and more in garbage
 * collection. Here all these calls share one such run, which the library creates; each call gets an object that
 * inherits from it. If anything traces (a variable, a handler, a run that user code opened around the call), the method
 * of the library is used.
 *
 * This replaces a method of the library. The replacement is installed only after a probe confirms that the method
 * behaves as described here.
 */
const CHILD = Symbol.for('lc:child_config')
const VARIABLES = Symbol.for('lc:context_variables')
const TRACER = 'langchain_tracer'
const SWITCHES = ['LANGSMITH_TRACING_V2', 'LANGCHAIN_TRACING_V2', 'LANGSMITH_TRACING', 'LANGCHAIN_TRACING']

/** AsyncLocalStorageProviderSingleton of @langchain/core/singletons. */
export interface Provider {
  getInstance(): { getStore(): Store | undefined; run<T>(store: unknown, work: () => T): T }
  getRunnableConfig?(): unknown
  runWithConfig<T>(config: Config | undefined, work: () => T, noRoot?: boolean): T
}

interface Config {
  callbacks?: readonly Handler[] | { handlers?: readonly Handler[] }
}

interface Handler {
  name?: string
}

/** The value in the async context of a call. */
interface Store {
  tracingEnabled?: boolean
  extra?: { metadata?: object; [CHILD]?: unknown }
  [VARIABLES]?: unknown
}

/** Makes the calls of this copy of the library share their untraced run. Returns true on success. */
export function shareUntracedRun(provider: Provider | undefined): boolean {
  const theirs = provider?.runWithConfig
  if (provider === undefined || typeof theirs !== 'function' || isTraced(undefined, undefined)) return false
  const probe = {}
  const root = theirs.call(provider, probe, () => provider.getInstance().getStore()) as Store | undefined
  if (root?.tracingEnabled !== false || root.extra?.[CHILD] !== probe) return false

  class Call {
    extra: Store['extra']
    /** Own list per call: entries must not accumulate in the shared run. */
    child_runs: unknown[] = []
    constructor(config: unknown) {
      this.extra = { metadata: {}, [CHILD]: config }
    }
  }
  Object.setPrototypeOf(Call.prototype, root)

  provider.runWithConfig = function <T>(
    this: Provider,
    config: Config | undefined,
    work: () => T,
    noRoot?: boolean,
  ): T {
    const storage = this.getInstance()
    const around = storage.getStore()
    if (noRoot || isTraced(around, config?.callbacks)) return theirs.call(this, config, work, noRoot) as T
    const call: Store = new Call(config)
    if (around?.[VARIABLES] !== undefined) call[VARIABLES] = around[VARIABLES]
    return storage.run(call, work)
  }
  return true
}

/** Returns whether a call may be traced: such a call uses the method of the library. */
function isTraced(around: Store | undefined, callbacks: Config['callbacks']): boolean {
  if (around !== undefined) {
    if (around.tracingEnabled !== false) return true
  } else for (const name of SWITCHES) if (process.env[name]) return true
  if (callbacks === undefined) return false
  const handlers = 'handlers' in callbacks ? callbacks.handlers : (callbacks as readonly Handler[])
  return handlers?.some(handler => handler?.name === TRACER) ?? false
}
