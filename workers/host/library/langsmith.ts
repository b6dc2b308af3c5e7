/**
 * LangSmith, where the environment of the application has it. The library sends traces by itself; this adds the project
 * that a run names, and the URLs at which feedback about a run may be given (docs/spec/runs.md#langsmith).
 */
import type { JsonObject } from '../../../schemas/json.js'

/** LangChainTracer of `@langchain/core`, as the application has it. */
export type TracerClass = new (fields: JsonObject) => Tracer

interface Tracer {
  /** Absent before 0.3.40 of the core: a trace then goes to the project of the run alone. */
  replicas?: unknown
  exampleId?: string
  client: { createPresignedFeedbackToken(run_id: string, key: string): Promise<{ url: string }> }
}

export interface LangSmith {
  /** Sends the trace of a run to its project, too; undefined: the run names none, or nothing is traced. */
  tracerOf(configurable: JsonObject): Promise<object | undefined>
  /** URLs by key. Null, and a line in the log: LangSmith does not give them. */
  feedbackUrls(run_id: string, keys: readonly string[]): Promise<{ [key: string]: string } | null>
}

type Env = { readonly [name: string]: string | undefined }

/** The events of a run wait for them. */
const FEEDBACK_MS = 5_000

/** `load` imports the class when it is needed; null: the library has none. */
export function openLangSmith(env: Env, load: () => Promise<TracerClass | null>): LangSmith {
  const traces = TRACING.some(name => env[name]?.toLowerCase() === 'true')
  const hasKey = Boolean(env.LANGSMITH_API_KEY || env.LANGCHAIN_API_KEY)
  let loading: Promise<TracerClass | null> | null = null
  const loaded = () => (loading ??= load())
  return {
    async tracerOf({ langsmith_project: project, langsmith_example_id: example }) {
      if (!traces || typeof project !== 'string' || project === '') return
      const Tracer = await loaded()
      if (Tracer === null) return
      const example_id = typeof example === 'string' && example !== '' ? example : undefined
      const updates = example_id === undefined ? undefined : { reference_example_id: example_id }
      const usual = projectOf(env)
      const replicas = usual === project ? [[project, updates]] : [[project, updates], [usual]]
      const tracer = new Tracer({ projectName: project, replicas })
      if (tracer.replicas === undefined && example_id !== undefined) tracer.exampleId = example_id
      return tracer
    },
    async feedbackUrls(run_id, keys) {
      try {
        if (!traces && !hasKey) throw new Error('LANGSMITH_API_KEY is not set')
        const Tracer = await loaded()
        if (Tracer === null) throw new Error('the library of the application has no tracer')
        const { client } = new Tracer({})
        const urls = keys.map(async key => [key, (await client.createPresignedFeedbackToken(run_id, key)).url] as const)
        return Object.fromEntries(await within(FEEDBACK_MS, Promise.all(urls)))
      } catch (error) {
        console.warn(`No URLs for feedback_keys of run ${run_id}: ${(error as Error).message}`)
        return null
      }
    },
  }
}

/** The library traces when one of them is `true`. */
const TRACING = ['LANGSMITH_TRACING_V2', 'LANGCHAIN_TRACING_V2', 'LANGSMITH_TRACING', 'LANGCHAIN_TRACING']

/** The project of traces that name none. */
const projectOf = (env: Env): string =>
  env.LANGSMITH_PROJECT || env.LANGCHAIN_PROJECT || env.LANGCHAIN_SESSION || 'default'

async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const late = AbortSignal.timeout(ms)
  const aborted = new Promise<never>((_, reject) =>
    late.addEventListener('abort', () => reject(new Error(`LangSmith has not answered within ${ms / 1_000} s`))),
  )
  return Promise.race([work, aborted])
}
