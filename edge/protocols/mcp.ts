/**
 * MCP over streamable HTTP (docs/spec/protocols.md#mcp): each assistant that the caller may see is a tool. There are no
 * sessions: every request stands alone, and is answered with one message. The official SDK speaks the protocol, in versions
 * that begin with `initialize` and in 2026-07-28; lists and runs are requests of the caller to the API.
 */
import { randomUUID } from 'node:crypto'
import type { Server } from '@modelcontextprotocol/server'
import { decodeJson } from '../../bus/decode.js'
import { ERRORS, fail, WeftError } from '../../schemas/errors.js'
import { jsonText, withDoubles } from '../../schemas/exact.js'
import { isObject, type Json, type JsonObject } from '../../schemas/json.js'
import type { Edge } from '../context.js'
import { EDGE_VALUES } from '../http/body.js'
import type { Exchange } from '../http/exchange.js'
import type { Route } from '../routes.js'
import { askApi } from './api-request.js'
import { type Assistant, toolNames, toolSchema } from './mcp-tools.js'

/** Tools of one page. */
const PAGE = 100
/** Messages of one request: they are carried out at the same time. */
const MOST = 20
/** Characters of a request without the inputs of its calls. The library reads them by walks that block for 40 ms at most. */
const MAX_REST = 16 * 1024
/** Assistants of one search. */
const SEARCHED = 1_000
const ACCEPTED = ['application/json', 'text/event-stream']
const ACCEPT = `Accept: expected both ${ACCEPTED.join(' and ')}`
/** Error codes of JSON-RPC 2.0, section 5.1. */
const PARSE = -32700
const INVALID_REQUEST = -32600
const INVALID_PARAMS = -32602
const INTERNAL = -32603

/** Loaded with the first request. */
const load = () => import('@modelcontextprotocol/server')
type Library = Awaited<ReturnType<typeof load>>
let library: Promise<Library> | null = null

export async function mcp(edge: Edge, exchange: Exchange, route: Route, body: Uint8Array): Promise<void> {
  if (route.method === 'DELETE') return exchange.refuse('not_found', 'There are no sessions')
  const { accept } = exchange.received
  if (!ACCEPTED.every(type => accept.includes(type) || accept.includes('*/*'))) return exchange.error(400, ACCEPT)
  library ??= load().catch(error => {
    library = null
    throw error
  })
  const sdk = await library
  let given: unknown
  try {
    given = decodeJson(body, { quote: false, most: EDGE_VALUES })
  } catch (error) {
    return exchange.reply(400, errorText(PARSE, `Parse error: ${(error as WeftError).message}`))
  }
  if (given === undefined) return exchange.reply(400, errorText(PARSE, 'Parse error: the body is empty'))
  if (Array.isArray(given) && given.length > MOST)
    return exchange.reply(400, errorText(INVALID_REQUEST, `At most ${MOST} messages at once`))
  const inputs: Input[] = []
  const message = Array.isArray(given) ? given.map(one => withoutInput(one, inputs)) : withoutInput(given, inputs)
  if (jsonText(message).length > MAX_REST) return exchange.reply(400, errorText(INVALID_REQUEST, LARGE_REST))
  const gone = new AbortController()
  exchange.onAbort = () => gone.abort()
  const { signal } = gone
  const outputs: Outputs = new Map()
  const server = (isLegacy: boolean) => toolServer(sdk, edge, exchange, { signal, inputs, outputs, isLegacy })
  const request = new Request('http://weft/mcp', { method: 'POST', headers: headersOf(exchange), signal })
  const isLegacy = await sdk.isLegacyRequest(request, message)
  const answer = isLegacy
    ? await answerLegacy(sdk, server(true), request, message)
    : await sdk.createMcpHandler(() => server(false), { legacy: 'reject' }).fetch(request, { parsedBody: message })
  let text = await answer.text()
  for (const [place, output] of outputs) text = text.replace(place, () => output)
  const type = answer.headers.get('content-type')
  exchange.reply(answer.status, text === '' ? null : text, type === null ? {} : { 'Content-Type': type })
}

/** Versions before 2026-07-28, which begin with `initialize`. By itself the library would answer with events. */
async function answerLegacy(sdk: Library, server: Server, request: Request, parsedBody: unknown): Promise<Response> {
  const transport = new sdk.WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true })
  try {
    await server.connect(transport)
    return await transport.handleRequest(request, { parsedBody })
  } finally {
    await server.close()
  }
}

/** The library reads these headers only. */
function headersOf({ received: { mcpVersion, mcpMethod, mcpName } }: Exchange): Headers {
  const headers = new Headers({ accept: ACCEPTED.join(), 'content-type': 'application/json' })
  const given = { 'mcp-protocol-version': mcpVersion, 'mcp-method': mcpMethod, 'mcp-name': mcpName }
  // Other characters are in no value of the protocol, and the library throws at some.
  for (const [name, value] of Object.entries(given)) if (value !== '') headers.set(name, value.replace(ODD, '?'))
  return headers
}

const ODD = /[^\t -~]/g
const LARGE_REST = `Invalid request: more than ${MAX_REST} characters beside the arguments of calls`
const errorText = (code: number, message: string): string =>
  jsonText({ jsonrpc: '2.0', error: { code, message }, id: null })

/** The input that a call gives to its run. */
interface Input {
  input: JsonObject
  /** Not of the protocol. */
  context?: JsonObject
}

/**
 * The message without what it gives to a run, which goes to `inputs`; its place there stands for it. The library validates
 * the arguments of a call member by member: 100,000 of them block for 0.2 s.
 */
function withoutInput(message: unknown, inputs: Input[]): unknown {
  if (!isObject(message) || message.method !== 'tools/call' || !isObject(message.params)) return message
  const { arguments: input = {}, context, ...params } = message.params
  if (!isObject(input)) return message
  inputs.push({ input, ...(isObject(context) ? { context } : {}) })
  return { ...message, params: { ...params, arguments: { place: inputs.length - 1 } } }
}

/** The text of the output of a run, by the text that stands for it in the answer: the library validates outputs, too. */
type Outputs = Map<string, string>

function toolServer(
  sdk: Library,
  edge: Edge,
  exchange: Exchange,
  {
    signal,
    inputs,
    outputs,
    isLegacy,
  }: { signal: AbortSignal; inputs: readonly Input[]; outputs: Outputs; isLegacy: boolean },
) {
  const server = new sdk.Server(
    { name: 'weft', version: edge.versions.weft },
    { capabilities: { tools: { listChanged: false } } },
  )
  /** The refusals of the API become errors of the protocol. */
  const refusalOf = (error: unknown): Error => {
    if (!(error instanceof WeftError)) return error as Error
    return new sdk.ProtocolError(error.code === 'invalid' ? INVALID_PARAMS : INTERNAL, error.message)
  }
  const guarded =
    <Of extends { params?: unknown }, Result>(work: (params: Of['params']) => Promise<Result>) =>
    ({ params }: Of): Promise<Result> =>
      work(params).catch(error => Promise.reject(refusalOf(error)))
  server.setRequestHandler(
    'tools/list',
    guarded(async params => {
      const from = offsetOf(params?.cursor)
      const all = [...toolNames(await assistantsOf(edge, exchange, signal))]
      const page = all.slice(from, from + PAGE)
      const tools = await Promise.all(
        page.map(async ([name, { assistant_id, name: title, description }]) => {
          const input_schema = await inputSchemaOf(edge, exchange, assistant_id, signal)
          if (input_schema === null) return []
          return [
            {
              name,
              title,
              description: description ?? `The assistant ${title}`,
              inputSchema: toolSchema(input_schema),
            },
          ]
        }),
      )
      const next = from + PAGE
      return { tools: tools.flat(), ...(next < all.length ? { nextCursor: `${next}` } : {}) }
    }),
  )
  server.setRequestHandler(
    'tools/call',
    guarded(async ({ name, arguments: given }) => {
      const found = toolNames(await assistantsOf(edge, exchange, signal)).get(name)
      if (found === undefined) throw fail('invalid', `Unknown tool: ${name.slice(0, 200)}`)
      const run = { assistant_id: found.assistant_id, ...inputs[given?.place as number], on_disconnect: 'cancel' }
      const output = await ask(edge, exchange, { path: '/runs/wait', body: run }, signal)
      return resultOf(output, outputs, isLegacy)
    }),
  )
  return server
}

/** The API's answer for an assistant that was deleted meanwhile, and for a graph whose code fails. */
const CANNOT_BE_CALLED: readonly number[] = [ERRORS.not_found.status, ERRORS.internal.status]

/** Null for an assistant that cannot be called now: the others are tools nevertheless. */
async function inputSchemaOf(edge: Edge, exchange: Exchange, assistant_id: string, signal: AbortSignal) {
  const call = { method: 'GET' as const, path: `/assistants/${assistant_id}/schemas` }
  let broken = false
  const found = askApi<JsonObject>({ edge, exchange, signal }, call, (status, detail) => {
    broken = CANNOT_BE_CALLED.includes(status)
    if (broken) edge.link.log.warn({ assistant_id, why: detail }, 'an assistant is no tool of MCP: it has no schema')
    return refusal(status, detail)
  })
  return found.then(
    ({ input_schema }) => withDoubles(input_schema ?? {}),
    error => {
      if (broken) return null
      throw error
    },
  )
}

/** The result of a tool: the output of the run, or the message of its failure. */
function resultOf(output: Json, outputs: Outputs, isLegacy: boolean) {
  const failure = isObject(output) ? output.__error__ : null
  const told = (text: string) => [{ type: 'text' as const, text }]
  if (isObject(failure)) return { content: told(`${failure.error}: ${failure.message}`), isError: true }
  const content = told(jsonText(output))
  // A function may return any value; earlier versions have objects only.
  if (isLegacy && !isObject(output)) return { content, isError: false }
  const structuredContent = { place: randomUUID() }
  outputs.set(jsonText(structuredContent), jsonText(withDoubles(output)))
  return { content, structuredContent, isError: false }
}

/** All that the caller may see, oldest first: a name stays with its assistant when others are created. */
async function assistantsOf(edge: Edge, exchange: Exchange, signal: AbortSignal): Promise<Assistant[]> {
  const all: Assistant[] = []
  for (;;) {
    const body = {
      limit: SEARCHED,
      offset: all.length,
      sort_by: 'created_at',
      sort_order: 'asc',
      select: ['assistant_id', 'graph_id', 'name', 'description'],
    }
    const page = (await ask(edge, exchange, { path: '/assistants/search', body }, signal)) as unknown as Assistant[]
    all.push(...page)
    if (page.length < SEARCHED) return all
  }
}

/** The parsed answer of a route of the API. Throws a WeftError for a refusal. */
function ask(
  edge: Edge,
  exchange: Exchange,
  { path, body }: { path: string; body?: object },
  signal: AbortSignal,
): Promise<JsonObject> {
  const call = body === undefined ? { method: 'GET' as const, path } : { method: 'POST' as const, path, body }
  return askApi({ edge, exchange, signal }, call, refusal)
}

const refusal = (status: number, detail: string): WeftError =>
  fail(status === ERRORS.invalid.status || status === 400 ? 'invalid' : 'internal', detail)

function offsetOf(cursor: string | undefined): number {
  if (cursor === undefined) return 0
  if (!/^\d{1,6}$/.test(cursor)) throw fail('invalid', 'cursor: expected the nextCursor of an earlier answer')
  return Number(cursor)
}
