/** `rpc.assistants.*` (docs/spec/assistants.md#routes). */
import { bytesHandler, type Context, jsonHandler } from '../../../bus/serve.js'
import { removeConsumer } from '../../../bus/streams.js'
import { type Retirement, validateRetirement } from '../../../schemas/announcements.js'
import {
  type AssistantCount,
  type AssistantCreate,
  type AssistantPatch,
  type AssistantSearch,
  type LatestVersion,
  type VersionSearch,
  validateAssistantCount,
  validateAssistantCreate,
  validateAssistantPatch,
  validateAssistantSearch,
  validateLatestVersion,
  validateVersionSearch,
} from '../../../schemas/assistants.js'
import { fail } from '../../../schemas/errors.js'
import { token, uuidOf } from '../../../schemas/ids.js'
import { readBoolean } from '../../../schemas/query.js'
import { accessOf } from '../access.js'
import { appOf } from '../apps.js'
import type { Deps } from '../context.js'
import { pathAssistant } from '../rows/assistant.js'
import { assistantText, versionText } from '../rows/text.js'
import { createAssistant } from './create.js'
import { describe, drawingIn, subgraphsIn, userInterface } from './describe.js'
import { removeAssistant } from './remove.js'
import { countAssistants, searchAssistants } from './search.js'
import { patchAssistant, searchVersions, setLatest } from './versions.js'

export const assistants = (deps: Deps) => {
  const named = ({ head }: Context, action: 'read' | 'update' | 'delete') =>
    pathAssistant(deps.store, accessOf(head, `assistants:${action}`), head.params?.assistant_id ?? '')
  const interfaceOf = ({ head }: Context, name: string) => userInterface(deps, appOf(head), name)
  return {
    create: jsonHandler<AssistantCreate>(validateAssistantCreate, async (body, { head }) => ({
      body: assistantText(await createAssistant(deps, accessOf(head, 'assistants:create'), body)),
    })),
    get: bytesHandler(async (_, context) => ({ body: assistantText(await named(context, 'read')) })),
    update: jsonHandler<AssistantPatch>(validateAssistantPatch, async (body, context) => ({
      body: assistantText(await patchAssistant(deps, await named(context, 'update'), body)),
    })),
    delete: bytesHandler(async (_, context) => {
      const threads = readBoolean(new URLSearchParams(context.head.query), 'delete_threads')
      const row = await named(context, 'delete')
      await removeAssistant(deps, row, { threads: threads ? accessOf(context.head, 'threads:delete') : null })
      return { head: { status: 204 } }
    }),
    search: jsonHandler<AssistantSearch>(validateAssistantSearch, (body, { head }) =>
      searchAssistants(deps, accessOf(head, 'assistants:search'), body),
    ),
    count: jsonHandler<AssistantCount>(validateAssistantCount, async (body, { head }) => ({
      body: `${await countAssistants(deps, accessOf(head, 'assistants:search'), body)}`,
    })),
    versions: jsonHandler<VersionSearch>(validateVersionSearch, async (body, context) => {
      const access = accessOf(context.head, 'assistants:read')
      const found = await searchVersions(deps, access, await named(context, 'read'), body)
      return { body: `[${found.map(versionText).join()}]` }
    }),
    latest: jsonHandler<LatestVersion>(validateLatestVersion, async (body, context) => {
      const version = body.version ?? versionIn(context)
      return {
        body: assistantText(
          await setLatest(deps, accessOf(context.head, 'assistants:update'), await named(context, 'update'), version),
        ),
      }
    }),
    graph: bytesHandler(async (_, context) =>
      describe(deps, await named(context, 'read'), drawingIn(context.head), context.head.headers),
    ),
    schemas: bytesHandler(async (_, context) =>
      describe(deps, await named(context, 'read'), { verb: 'schemas' }, context.head.headers),
    ),
    ui: bytesHandler(async (_, context) => {
      const given = context.head.params?.assistant_id ?? ''
      // The files are public, so the name of a graph stands for itself.
      return interfaceOf(context, uuidOf(given) !== null ? (await named(context, 'read')).graph_id : given)
    }),
    ui_file: bytesHandler(async (_, context) => interfaceOf(context, context.head.params?.graph_id ?? '')),
    subgraphs: bytesHandler(async (_, context) =>
      describe(deps, await named(context, 'read'), subgraphsIn(context.head), context.head.headers),
    ),
    retire: jsonHandler<Retirement>(validateRetirement, async ({ pool }) => {
      await removeConsumer(deps.link, token('pool', pool))
      return {}
    }),
  }
}

/** The published description has it as a query parameter, the SDKs send it in the body. */
function versionIn({ head }: Context): number {
  const text = new URLSearchParams(head.query).get('version') ?? ''
  if (!/^[1-9]\d{0,8}$/.test(text)) throw fail('invalid', 'version: expected the number of a version')
  return Number(text)
}
