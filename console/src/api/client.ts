/** The official SDK, with the credentials of the session. Every call of the console is made here. */
import { Client } from '@langchain/langgraph-sdk/client'
import { base } from './base'
import { lost } from './connection'
import { headersOf, session } from './session'

/** An answer that is an error. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    sentence: string,
  ) {
    super(sentence)
  }
}

/** As `fetch`: adds the credentials unless the call has a key, and notes a lost connection and refused credentials. */
async function send(input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> {
  const { credentials } = session.get()
  const headers = new Headers(init.headers)
  const hasKey = headers.has('X-Api-Key')
  if (credentials !== null && !hasKey)
    for (const [name, value] of Object.entries(headersOf(credentials))) headers.set(name, value)
  let response: Response
  try {
    response = await fetch(input, { ...init, headers })
  } catch (error) {
    if (!init.signal?.aborted) lost()
    throw error
  }
  if (response.status === 401 && !hasKey) {
    const text = await response.clone().text()
    session.change({ refused: detailOf(text) ?? 'The server needs a key' })
  }
  return response
}

export const client = new Client({
  apiUrl: base,
  apiKey: null,
  callerOptions: { fetch: send as typeof fetch, maxRetries: 0 },
})

export interface Asked {
  method?: string
  body?: unknown
  signal?: AbortSignal
  /** Headers in addition to those of the session. */
  headers?: { [name: string]: string }
}

/** Routes that the SDK does not have. Rejects with a Refusal, or when the server cannot be reached. */
export const ask = async <T>(path: string, asked: Asked = {}): Promise<T> => (await answerOf<T>(path, asked)).body

/** As `ask`, for one page of a list; `next` is the cursor of the next one. */
export async function askPage<T>(path: string, asked: Asked): Promise<{ rows: T[]; next: string | null }> {
  const { body, headers } = await answerOf<T[]>(path, asked)
  return { rows: body, next: headers.get('X-Pagination-Next') }
}

async function answerOf<T>(path: string, { method = 'GET', body, signal, headers }: Asked) {
  const response = await send(`${base}${path}`, {
    method,
    signal,
    headers: { ...headers, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  if (!response.ok) throw new Refusal(response.status, detailOf(text) ?? `The server answered ${response.status}`)
  return { body: (text === '' ? null : JSON.parse(text)) as T, headers: response.headers }
}

/** The sentence of an error body; of a list of wrong members, one for each. */
function detailOf(text: string): string | null {
  try {
    const { detail } = JSON.parse(text) as { detail?: string | { loc: (string | number)[]; msg: string }[] }
    if (Array.isArray(detail)) return detail.map(({ loc, msg }) => `${loc.slice(1).join('.')}: ${msg}`).join('; ')
    return typeof detail === 'string' ? detail : null
  } catch {
    return null
  }
}

/** A call without an answer, in the words of each browser. */
export const isUnreachable = (error: unknown): boolean =>
  /^(Failed to fetch|NetworkError|Load failed)/.test((error as Error).message)

/** The message of an error for the user. The SDK puts the status and the body into its message. */
export function sentenceOf(error: unknown): string {
  const { message = String(error) } = error as Error
  const body = /^HTTP \d+: (\{.*\})$/s.exec(message)?.[1]
  if (body !== undefined) return detailOf(body) ?? message
  return isUnreachable(error) ? 'The server cannot be reached' : message
}
