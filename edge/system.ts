/** Health and version of this server (docs/spec/http.md#system). Never needs credentials. */
import type { Libraries } from '../schemas/announcements.js'
import type { RouteGroup } from '../schemas/application.js'
import { validateAppInfo } from '../schemas/calls.js'
import { readBoolean } from '../schemas/query.js'
import { rpc } from '../schemas/subjects.js'
import type { Edge } from './context.js'
import type { Exchange } from './http/exchange.js'
import { startPage } from './pages/start.js'
import { ask, notReady, notReadyItself } from './readiness.js'

const decoder = new TextDecoder()
const OK = '{"ok":true}'
const CHECK_MS = 5_000

/** A browser gets a page, where pages are served. */
export function root(edge: Edge, exchange: Exchange): void | Promise<void> {
  if (exchange.mount !== null) return check(edge, exchange, () => exchange.reply(200, OK))
  const hasPages = !edge.application?.http.disabled.includes('meta')
  if (hasPages && exchange.received.accept.includes('text/html')) return startPage(edge, exchange)
  exchange.reply(200, OK, { Vary: 'Accept' })
}

/**
 * 200 while the edge runs; with check_db=1 only while the store answers, unless the application switched off `meta`.
 * Below a deployment: while it serves.
 */
export function ok(edge: Edge, exchange: Exchange): void | Promise<void> {
  const mayCheck = !edge.application?.http.disabled.includes('meta')
  const asks = readBoolean(new URLSearchParams(exchange.query), 'check_db') && mayCheck
  const good = () => exchange.reply(200, OK)
  return asks || exchange.mount !== null ? check(edge, exchange, good) : good()
}

/** 503 until broker, store and a worker answer; with self=1 only while this edge cannot serve or is about to stop. */
export async function ready(edge: Edge, exchange: Exchange): Promise<void> {
  const isAlone = readBoolean(new URLSearchParams(exchange.query), 'self')
  const fault = notReadyItself(edge) ?? (isAlone ? null : await notReady(edge, exchange.callHead()))
  if (fault === null) exchange.reply(200, OK)
  else exchange.error(fault.status, fault.detail)
}

/** The LangGraph versions are those of the application; Weft's own while no graph worker has announced them. */
export function info(edge: Edge, exchange: Exchange): void | Promise<void> {
  if (exchange.mount === null)
    return exchange.reply(200, infoText(edge, edge.library.versions(), edge.application?.http.disabled))
  return deploymentInfo(edge, exchange)
}

async function deploymentInfo(edge: Edge, exchange: Exchange): Promise<void> {
  const asked = await ask(edge, exchange.callHead(), rpc('system', 'info'), CHECK_MS)
  if ('detail' in asked) return exchange.error(asked.status, asked.detail)
  const parsed = validateAppInfo(JSON.parse(decoder.decode(asked.body)))
  const { libraries, http } = parsed.success ? parsed.data : { libraries: null, http: null }
  exchange.reply(200, infoText(edge, libraries, http?.disabled))
}

/** The flags that clients look for before they rely on a feature; the official servers have the last one, too. */
const SDK_FLAGS = { strict_resume: true, stream_namespaces: true, langsmith_tracing_replicas: true }

/** The flags say what is served: a group that the application has switched off is not. */
function infoText({ versions }: Edge, libraries: Libraries | null, disabled: readonly RouteGroup[] = []): string {
  const serves = (...groups: RouteGroup[]) => !groups.some(group => disabled.includes(group))
  const flags = { assistants: serves('assistants'), crons: serves('runs', 'crons'), langsmith: false, ...SDK_FLAGS }
  return JSON.stringify({
    version: versions.weft,
    ...librariesText(libraries ?? { javascript: versions.langgraph }),
    flags,
    host: SELF_HOSTED,
    metadata: {},
  })
}

/** Clients read from these members in which language the graphs are. */
const librariesText = ({ javascript, python }: Libraries) => ({
  ...(javascript === undefined ? {} : { langgraph_js_version: javascript, context: 'js' }),
  ...(python === undefined ? {} : { langgraph_py_version: python }),
})

const SELF_HOSTED = {
  kind: 'self-hosted',
  project_id: null,
  host_revision_id: null,
  revision_id: null,
  tenant_id: null,
}

/** Answers `good` when the store answers and knows the deployment; a deployment that does not serve says why. */
async function check(edge: Edge, exchange: Exchange, good: () => void): Promise<void> {
  const asked = await ask(edge, exchange.callHead(), rpc('system', 'check'), CHECK_MS)
  if ('detail' in asked) exchange.error(exchange.mount === null ? 500 : asked.status, asked.detail)
  else good()
}
