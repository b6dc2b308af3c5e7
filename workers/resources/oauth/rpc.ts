/** The OAuth flow, tokens and connections over HTTP (docs/spec/oauth.md). */
import { bytesHandler, fieldsHandler, jsonHandler, type Reply } from '../../../bus/serve.js'
import {
  type Authenticate,
  type AuthRef,
  type BrowserVisit,
  type CallbackPost,
  type ConnectionCreate,
  type McpDiscover,
  type TokenImport,
  type TokenPatch,
  validateAuthenticate,
  validateAuthRef,
  validateBrowserVisit,
  validateCallbackPost,
  validateConnectionCreate,
  validateMcpDiscover,
  validateTokenImport,
  validateTokenPatch,
} from '../../../schemas/oauth.js'
import type { Deps } from '../context.js'
import * as connections from './connections.js'
import { discover } from './discover.js'
import { authenticate, callback, finalize, peek, start } from './flow.js'
import * as tokens from './tokens.js'

export const oauth = (deps: Deps) => ({
  authenticate: fieldsHandler<Authenticate>(validateAuthenticate, async (body, { head }) =>
    json(await authenticate(deps, body, head)),
  ),
  start: jsonHandler<BrowserVisit>(validateBrowserVisit, async (visit, { head }) =>
    json(await start(deps, head.params?.auth_id ?? '', visit)),
  ),
  callback: jsonHandler<BrowserVisit>(validateBrowserVisit, async (visit, { head }) =>
    json(await callback(deps, head.params?.provider_id ?? '', visit)),
  ),
  finalize: fieldsHandler<CallbackPost>(validateCallbackPost, async (body, { head }) => {
    await finalize(deps, head.params?.provider_id ?? '', body, head)
    return json({ status: 'completed' })
  }),
  peek: jsonHandler<AuthRef>(validateAuthRef, async (ref, { head }) => json(await peek(deps, ref, head))),
  discover: fieldsHandler<McpDiscover>(validateMcpDiscover, async (body, { head }) =>
    json(await discover(deps, body, head)),
  ),
  tokens: bytesHandler(async (_, { head }) => json(await tokens.list(deps, head))),
  tokens_exist: bytesHandler(async (_, { head }) => json(await tokens.exists(deps, head))),
  delete_tokens: bytesHandler(async (_, { head }) => json(await tokens.removeAll(deps, head))),
  delete_token: bytesHandler(async (_, { head }) => {
    await tokens.remove(deps, head)
    return { head: { status: 204 } }
  }),
  update_token: fieldsHandler<TokenPatch>(validateTokenPatch, async (body, { head }) =>
    json(await tokens.update(deps, body, head)),
  ),
  import_token: fieldsHandler<TokenImport>(validateTokenImport, async (body, { head }) =>
    json(await tokens.importToken(deps, body, head)),
  ),
  events: bytesHandler(async (_, { head }) => json(await tokens.events(deps, head))),
  connections: bytesHandler(async (_, { head }) => json(await connections.list(deps, head))),
  connect: fieldsHandler<ConnectionCreate>(validateConnectionCreate, async (body, { head }) =>
    json(await connections.create(deps, body, head), 201),
  ),
  disconnect: bytesHandler(async (_, { head }) => {
    await connections.remove(deps, head)
    return { head: { status: 204 } }
  }),
})

/** An answer may hold a token: no cache keeps it. */
const json = (value: unknown, status = 200): Reply => ({
  head: { status, headers: { 'Cache-Control': 'no-store' } },
  body: JSON.stringify(value),
})
