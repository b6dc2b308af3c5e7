/** A case of the comparison: a sequence of calls that both servers receive. */
export type Language = 'python' | 'javascript'

export interface Call {
  /**
   * Method and path, such as `GET /threads/{thread}`. A name in braces, here and in the body, is a value that an earlier
   * call of the case has saved; `{case}` is the name of the case.
   */
  call: string
  body?: unknown
  /** A body that is sent as it is. */
  text?: string
  headers?: { readonly [name: string]: string }
  /** Members of the answer that later calls name, by a path such as `0.run_id`. */
  save?: { readonly [name: string]: string }
  /** The call is repeated until a run or thread is at rest, or until a run has started. */
  until?: 'settled' | 'running'
  /** Preparation: what it answers is not compared. */
  silent?: boolean
}

export interface Case {
  name: string
  calls: readonly Call[]
  /** Only graphs of this language; both unless given. */
  language?: Language
  /** It changes what other cases have created: it is executed after them. */
  alone?: boolean
}

export const post = (path: string, body?: unknown, more: Partial<Call> = {}): Call => ({
  call: `POST ${path}`,
  ...(body === undefined ? {} : { body }),
  ...more,
})

export const get = (path: string, more: Partial<Call> = {}): Call => ({ call: `GET ${path}`, ...more })

/** A thread of the case, saved as `thread`. */
export const thread = (body: object = {}): Call =>
  post('/threads', body, { save: { thread: 'thread_id' }, silent: true })

/** A run on that thread, with its answer. */
export const wait = (assistant_id: string, body: object = {}): Call =>
  post('/threads/{thread}/runs/wait', { assistant_id, ...body })

export const stream = (assistant_id: string, body: object = {}): Call =>
  post('/threads/{thread}/runs/stream', { assistant_id, ...body })

/** The stored state after the runs of a thread. */
export const STORED: readonly Call[] = [
  get('/threads/{thread}'),
  get('/threads/{thread}/state?subgraphs=true'),
  post('/threads/{thread}/history', { limit: 20 }),
]
