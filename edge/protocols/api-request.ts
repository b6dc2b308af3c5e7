/** The answers of the API to requests that a protocol makes for its client. */
import { parseLarge } from '../../bus/decode.js'
import { jsonText, parseJson } from '../../schemas/exact.js'
import type { SelfCall } from '../app/self.js'
import type { Edge } from '../context.js'
import type { Exchange } from '../http/exchange.js'

/** A client of a protocol. */
export interface Requester {
  edge: Edge
  exchange: Exchange
  /** Aborted when the client leaves. */
  signal: AbortSignal
}

/** The parsed answer of a route, undefined when it is empty; throws what `refusal` makes of a refusal: its status and the sentence of the API. */
export async function askApi<T>(
  { edge, exchange, signal }: Requester,
  call: SelfCall,
  refusal: (status: number, detail: string) => Error,
): Promise<T> {
  const { status, text } = await edge.self.ask(exchange, call, signal)
  if (status >= 400) throw refusal(status, detailOf(text))
  return text === '' ? (undefined as T) : parseLarge<T>(text)
}

/** The sentence in the body of a refusal. */
export function detailOf(text: string): string {
  try {
    const { detail } = parseJson(text)
    return typeof detail === 'string' ? detail : jsonText(detail)
  } catch {
    return text.slice(0, 200)
  }
}
