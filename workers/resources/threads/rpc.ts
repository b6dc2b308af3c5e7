/** Threads and their state (docs/spec/threads.md). */

import { v7 } from 'uuid'
import { bytesHandler, jsonHandler } from '../../../bus/serve.js'
import { keysOf } from '../../../schemas/contains.js'
import { fail } from '../../../schemas/errors.js'
import { canonicalId } from '../../../schemas/ids.js'
import { isObject, type JsonObject } from '../../../schemas/json.js'
import { readNames } from '../../../schemas/query.js'
import {
  type ThreadCreate,
  type ThreadFilter,
  type ThreadPatch,
  type ThreadPrune,
  type ThreadSearch,
  validateObject,
  validateThreadCreate,
  validateThreadFilter,
  validateThreadPatch,
  validateThreadPrune,
  validateThreadSearch,
} from '../../../schemas/threads.js'
import type { ThreadRow } from '../../../store/rows/threads.js'
import type { Step } from '../../../store/steps.js'
import { type Access, accessOf, sees } from '../access.js'
import type { Deps } from '../context.js'
import { metadataText } from '../rows/limits.js'
import { threadText, ttlText } from '../rows/text.js'
import { newThread, requireThread, threadIdOf } from '../rows/thread.js'
import { defaultTtl, expiryOf, readTtl } from '../rows/thread-ttl.js'
import { refreshState } from '../state/kept-state.js'
import { copyThread } from './copy.js'
import { patch } from './patch.js'
import { prune, storageText } from './prune.js'
import { removeThread } from './remove.js'
import { count, search } from './search.js'
import { replay, stateHandlers } from './state.js'

export const threads = (deps: Deps) => ({
  create: jsonHandler<ThreadCreate>(validateThreadCreate, (body, { head }) =>
    create(deps, accessOf(head, 'threads:create'), body, head.makes),
  ),
  get: bytesHandler(async (_, { head }) => {
    const include = readNames(new URLSearchParams(head.query), 'include', ['ttl'])
    return answerThread(deps, await requireThread(deps.store, accessOf(head, 'threads:read'), threadIdOf(head)), {
      withTtl: include.length > 0,
    })
  }),
  update: jsonHandler<ThreadPatch>(validateThreadPatch, async (body, { head }) => {
    const row = await patch(deps, accessOf(head, 'threads:update'), threadIdOf(head), body)
    return head.minimal ? { head: { status: 204, headers: MINIMAL } } : answerThread(deps, row)
  }),
  delete: bytesHandler(async (_, { head }) => {
    await removeThread(deps, await requireThread(deps.store, accessOf(head, 'threads:delete'), threadIdOf(head)))
    return { head: { status: 204 } }
  }),
  search: jsonHandler<ThreadSearch>(validateThreadSearch, (body, { head }) =>
    search(deps, accessOf(head, 'threads:search'), body),
  ),
  count: jsonHandler<ThreadFilter>(validateThreadFilter, async (body, { head }) => ({
    body: `${await count(deps, accessOf(head, 'threads:search'), body)}`,
  })),
  copy: jsonHandler<JsonObject>(validateObject, async ({ metadata }, { head }) => {
    // The body of a copy has no members: only a handler of threads:create can give it metadata.
    const stamp = head.filters !== undefined && isObject(metadata) ? metadata : {}
    return answerThread(deps, await copyThread(deps, accessOf(head, 'threads:read'), threadIdOf(head), stamp))
  }),
  prune: jsonHandler<ThreadPrune>(validateThreadPrune, async (body, { head }) => ({
    body: JSON.stringify({ pruned_count: await prune(deps, accessOf(head, 'threads:delete'), body) }),
  })),
  storage: bytesHandler(async (_, { head }) => ({
    body: await storageText(deps, await requireThread(deps.store, accessOf(head, 'threads:read'), threadIdOf(head))),
  })),
  ...stateHandlers(deps),
})

const MINIMAL = { 'Preference-Applied': 'return=minimal' }

async function answerThread(deps: Deps, row: ThreadRow, { withTtl = false } = {}) {
  const { row: fresh, state } = await refreshState(deps, row, await deps.store.threads.state(row.thread_id))
  return { body: threadText(fresh, state, { more: withTtl ? [ttlText(fresh, expiryOf(fresh))] : [] }) }
}

/** `makes`: the id of the caller for a thread without one. */
async function create(deps: Deps, access: Access, body: ThreadCreate, makes?: string) {
  const { store } = deps
  const { app } = access
  const metadata = body.metadata ?? {}
  const ttl = readTtl(body.ttl) ?? (await defaultTtl(deps.settings, app))
  const row = newThread({
    app,
    thread_id: canonicalId(body.thread_id ?? makes ?? v7()),
    metadata: metadataText(metadata),
    ttl,
  })
  const keys = keysOf(metadata)
  if (body.supersteps && body.supersteps.length > 0) {
    const known = await store.threads.get(null, row.thread_id)
    const made = known === null ? await replay(deps, row, keys, body.supersteps) : null
    if (made !== null) return answerThread(deps, made)
  } else {
    const step: Step = keys.length > 0 ? { step: 'threads.insert', row, keys } : { step: 'threads.insert', row }
    if ((await store.apply([step])) === -1) return { body: threadText(row, null) }
  }
  // With an id of the caller this is the thread of the same call, whose answer was lost.
  const isRepeated = makes !== undefined && (body.thread_id ?? null) === null
  if (body.if_exists !== 'do_nothing' && !isRepeated) throw fail('conflict', 'Thread already exists')
  const stored = await store.threads.get(app, row.thread_id)
  if (stored === null || stored.temporary || !sees(access, stored.metadata))
    throw fail('conflict', 'Thread already exists')
  return answerThread(deps, stored)
}
