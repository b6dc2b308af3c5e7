/** The HTTP client of the commands that call a server: one sentence for everything that goes wrong. */
import { setTimeout as sleep } from 'node:timers/promises'
import { jsonText, parseJson } from '../../schemas/exact.js'
import { UserError } from '../user-error.js'

export interface ClientFlags {
  url: string
  key?: string
  json?: true
}

export interface Request {
  body?: unknown
  headers?: { [name: string]: string }
  /** Repeats it for about 20 s while the server is busy or away: for requests that may be sent twice. */
  patient?: boolean
  signal?: AbortSignal
}

export interface Client {
  url: string
  /** The answer, also of an error. Throws a UserError with exit code 3 when no server answers. */
  send(method: string, path: string, request?: Request): Promise<Response>
  /** The JSON of an answer of 2xx; null when it has no body. Throws a Refused when the server refuses. */
  ask<T>(method: string, path: string, request?: Request): Promise<T>
}

/** The server refused a request: its sentence. */
export class Refused extends UserError {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message)
  }
}

export const UNREACHABLE = 3
const PAUSES = [250, 500, 1_000, 2_000, 4_000, 6_000, 6_000]
const BUSY = [429, 502, 503, 504]

interface ClientOptions {
  /** Headers of every request. */
  headers?: { [name: string]: string }
  /** The server that an import reads; otherwise that of --url. */
  isSource?: boolean
  /** Integers of 64 bits keep their digits, as BigInt: for values that are passed on. */
  exact?: boolean
}

/** Throws a UserError when the URL is none, or a header cannot be sent. */
export function openClient(
  flags: ClientFlags,
  { headers: more = {}, isSource = false, exact = false }: ClientOptions = {},
): Client {
  const url = flags.url.replace(/\/+$/, '')
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    throw new UserError(
      `${isSource ? '<source>' : '--url'} must be an http or https URL as http://127.0.0.1:2024, not "${flags.url}"`,
      2,
    )
  const own = { ...(flags.key ? { 'x-api-key': flags.key } : {}), ...more }
  for (const [name, value] of Object.entries(own)) checkHeader(name, value)
  const help = isSource
    ? 'it is the source of the import'
    : 'start one with `weft start`, or name another with --url or WEFT_URL'

  async function once(method: string, path: string, { body, headers, signal }: Request): Promise<Response> {
    const json: { [name: string]: string } = body === undefined ? {} : { 'content-type': 'application/json' }
    try {
      return await fetch(`${url}${path}`, {
        method,
        headers: { ...own, ...json, ...headers },
        ...(body === undefined ? {} : { body: exact ? jsonText(body) : JSON.stringify(body) }),
        ...(signal === undefined ? {} : { signal }),
      })
    } catch (error) {
      if (signal?.aborted) throw error
      const { cause, message } = error as Error & { cause?: { code?: string; message?: string } }
      throw new UserError(
        `no server answers at ${url} (${cause?.code ?? cause?.message ?? message}): ${help}`,
        UNREACHABLE,
      )
    }
  }

  async function send(method: string, path: string, request: Request = {}): Promise<Response> {
    for (const pause of request.patient ? PAUSES : []) {
      const answer = await once(method, path, request).catch(error => error as Error)
      if (answer instanceof Response && !BUSY.includes(answer.status)) return answer
      if (!(answer instanceof Response || answer instanceof UserError)) throw answer
      if (answer instanceof Response) await answer.body?.cancel()
      await sleep(pause)
    }
    return once(method, path, request)
  }

  return {
    url,
    send,
    async ask<T>(method: string, path: string, request: Request = {}) {
      const answer = await send(method, path, request)
      const text = await answer.text()
      if (!answer.ok) throw refusal(url, answer.status, text)
      try {
        return (text === '' ? null : (exact ? parseJson : JSON.parse)(text)) as T
      } catch {
        throw new UserError(`${url}${path} answers no JSON: is it a LangGraph server?`)
      }
    },
  }
}

/** The value may be a secret: it is not shown. */
function checkHeader(name: string, value: string): void {
  try {
    new Headers([[name, value]])
  } catch {
    throw new UserError(
      `the value of ${name} cannot be sent as a header: it has a line break or a character outside of Latin-1`,
      2,
    )
  }
}

/** Every page of a search: `page(offset)` answers at most `size` rows. */
export async function* pages<T>(size: number, page: (offset: number) => Promise<T[]>): AsyncGenerator<T[]> {
  for (let offset = 0; ; offset += size) {
    const rows = await page(offset)
    if (rows.length > 0) yield rows
    if (rows.length < size) return
  }
}

export function refusal(url: string, status: number, text: string): Refused {
  const why = sentenceIn(text) ?? `it answered ${status}`
  const help = status === 401 || status === 403 ? ' (--key or WEFT_KEY gives a key)' : ''
  return new Refused(`${url} refuses: ${why}${help}`, status)
}

/** `detail` of an error: a sentence, or the mistakes of a body. */
function sentenceIn(text: string): string | null {
  try {
    const { detail } = JSON.parse(text) as { detail?: unknown }
    if (typeof detail === 'string') return detail
    if (!Array.isArray(detail)) return null
    return detail.map(({ loc, msg }: { loc?: unknown[]; msg?: string }) => `${loc?.join('.')}: ${msg}`).join('; ')
  } catch {
    return null
  }
}
