/** The card of an agent: what a client reads first, in one document for versions 0.3 and 1.0 (docs/spec/protocols.md#a2a). */
import { fail } from '../../schemas/errors.js'
import { isObject, type Json, type JsonObject } from '../../schemas/json.js'
import { A2UI_TYPES } from '../../schemas/protocols/a2ui.js'
import type { Edge } from '../context.js'
import type { Exchange } from '../http/exchange.js'
import { addressOf } from '../pages/ui.js'
import { A2UI_CARD, allowsA2ui } from './a2a-a2ui.js'
import { type Assistant, readAssistant, readInputSchema } from './a2a-agent.js'
import { takesMessages } from './a2a-send.js'
import type { Requester } from './api-request.js'

const MODES = ['application/json', 'text/plain']
const HOST = /^[A-Za-z0-9.:[\]-]{1,255}$/

export async function agentCard(edge: Edge, exchange: Exchange): Promise<void> {
  const id = exchange.params.assistant_id ?? new URLSearchParams(exchange.query).get('assistant_id')
  if (!id) throw fail('invalid', 'assistant_id: expected the id of an assistant or the name of a graph')
  const leaving = new AbortController()
  exchange.onAbort = () => leaving.abort()
  const requester = { edge, exchange, signal: leaving.signal }
  try {
    const card = await readCard(requester, await readAssistant(requester, id), id)
    exchange.reply(200, JSON.stringify(card), { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' })
  } catch (error) {
    if (!leaving.signal.aborted) throw error
  }
}

/** `id`: as the client names the assistant. */
export async function readCard(requester: Requester, assistant: Assistant, id: string): Promise<JsonObject> {
  const { assistant_id, name, metadata, version } = assistant
  const schema = await readInputSchema(requester, assistant)
  const url = `${await baseOf(requester)}/a2a/${encodeURIComponent(id)}`
  const description = assistant.description ?? `${name} assistant`
  const own = isObject(metadata.a2a) ? metadata.a2a : {}
  const showsA2ui = allowsA2ui(assistant)
  const inputModes = modesOf(own.input_modes, showsA2ui)
  const outputModes = modesOf(own.output_modes, showsA2ui)
  return {
    protocolVersion: '0.3.0',
    name,
    description,
    url,
    preferredTransport: 'JSONRPC',
    supportedInterfaces: [{ url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
    capabilities: {
      streaming: true,
      pushNotifications: false,
      stateTransitionHistory: false,
      ...(showsA2ui ? { extensions: [A2UI_CARD] } : {}),
    },
    defaultInputModes: inputModes,
    defaultOutputModes: outputModes,
    skills: [
      {
        id: `${assistant_id}-main`,
        name: `${name} Capabilities`,
        description,
        tags: ['assistant', 'langgraph'],
        examples: [],
        inputModes,
        outputModes,
        metadata: { inputSchema: inputSchemaOf(schema) },
      },
    ],
    version: `${version}`,
  }
}

function inputSchemaOf(schema: Json): JsonObject {
  const { required = [], properties = {} } = isObject(schema) ? schema : {}
  return { required, properties, supportsA2A: takesMessages(schema) }
}

function modesOf(modes: Json, showsA2ui: boolean): string[] {
  const own = Array.isArray(modes) ? modes.filter(mode => typeof mode === 'string') : []
  const all = own.length > 0 ? own : MODES
  return showsA2ui ? [...new Set([...all, A2UI_TYPES[0]])] : all
}

/**
 * The address in front of `/a2a`: as the operator says, else as the client sees it, behind a proxy that says so with its scheme
 * and host.
 */
async function baseOf({ edge, exchange }: Requester): Promise<string> {
  if (edge.config.public_url !== '') return addressOf(edge, exchange)
  const { url, path, received } = exchange
  const { pathname } = new URL(url)
  const prefix = pathname.endsWith(path) ? pathname.slice(0, pathname.length - path.length) : ''
  const proto = received.forwardedProto.split(',', 1)[0]!.trim().toLowerCase() === 'https' ? 'https' : 'http'
  const forwarded = received.forwardedHost.split(',', 1)[0]!.trim()
  return `${proto}://${HOST.test(forwarded) ? forwarded : received.host}${prefix}`
}
