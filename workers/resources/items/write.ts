/** Writes of items: puts with their vectors, removals, and the sweep of what has expired. */
import { fail, type WeftError } from '../../../schemas/errors.js'
import { jsonText } from '../../../schemas/exact.js'
import { type ItemPut, type ItemRef, itemKey, namespaceOf } from '../../../schemas/items/items.js'
import type { ItemRow } from '../../../store/rows/items.js'
import type { Step } from '../../../store/steps.js'
import { type Access, seesObject } from '../access.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { embedItems } from '../vectors/embed.js'
import { defaultsOf, expiryOf, NO_ITEM, NOT_YOURS, seesItem } from './rules.js'

/** Expired items removed in one commit. */
const REMOVED = 500
const TRIES = 50

export const removeStep = (app: string, { namespace, key }: ItemRef): Extract<Step, { step: 'items.remove' }> => ({
  step: 'items.remove',
  app,
  namespace: namespaceOf(namespace, 'read'),
  key: itemKey(key),
})

/**
 * Stores the item durably. Throws `invalid` for a namespace that breaks the rules, and as
 * docs/spec/auth.md#filters-on-items `not_found` for an item that is not visible, `forbidden` for one that would not be.
 */
export async function putItem(deps: Deps, access: Access, body: ItemPut): Promise<void> {
  const [vectors] = await embedItems(deps, access.app, [body])
  const step = await putStep(deps, access.app, body, vectors!)
  if (access.filter === null) await deps.store.apply([step])
  else {
    if (!seesItem(access, step.row)) throw await refusal(deps, access, step.row)
    await untilDone(deps, access, step.row, stored => ({
      ...step,
      step: 'items.replace',
      replaces: stored?.updated_at ?? null,
    }))
  }
  deps.rankings.note(access.app, step.row)
}

/** Like `putItem`; an item that does not exist is removed only where one with this key would be visible. */
export async function removeItem(deps: Deps, access: Access, body: ItemRef): Promise<void> {
  const step = removeStep(access.app, body)
  if (access.filter === null) return void (await deps.store.apply([step]))
  await untilDone(deps, access, step, stored => {
    if (stored !== null) return { ...step, step: 'items.take', updated_at: stored.updated_at }
    if (!seesObject(access, { namespace: step.namespace, key: step.key })) throw fail('forbidden', NOT_YOURS)
    return null
  })
}

type Ref = Pick<ItemRow, 'app' | 'namespace' | 'key'>

/** Why an item that would not be visible is not stored: another one that is not visible has its key, or none has. */
async function refusal({ store }: Deps, access: Access, { app, namespace, key }: Ref): Promise<WeftError> {
  const stored = await store.items.get(app, { namespace, key }, clock.now())
  return stored !== null && !seesItem(access, stored) ? fail('not_found', NO_ITEM) : fail('forbidden', NOT_YOURS)
}

/**
 * Applies a step to the item as it is stored, again when another write came between. Throws `not_found` for a stored item
 * that is not visible. `stepFor` returns null when nothing is to be done.
 */
async function untilDone(
  { store }: Deps,
  access: Access,
  { app, namespace, key }: Ref,
  stepFor: (stored: ItemRow | null) => Step | null,
): Promise<void> {
  for (let i = 0; i < TRIES; i++) {
    const stored = await store.items.get(app, { namespace, key }, clock.now())
    if (stored !== null && !seesItem(access, stored)) throw fail('not_found', NO_ITEM)
    const step = stepFor(stored)
    if (step === null || (await store.apply([step])) === -1) return
  }
  throw fail('unavailable', 'Too many requests change this item at once')
}

export async function putStep(
  { settings }: Deps,
  app: string,
  body: ItemPut,
  vectors: Uint8Array,
): Promise<Extract<Step, { step: 'items.put' }>> {
  const now = clock.now()
  const ttl = body.ttl === undefined ? ((await defaultsOf(settings, app)).default_ttl ?? null) : body.ttl
  const row: ItemRow = {
    app,
    namespace: namespaceOf(body.namespace, 'write'),
    key: itemKey(body.key),
    value: jsonText(body.value),
    created_at: now,
    updated_at: now,
    ttl,
    expires_at: expiryOf(ttl, now),
  }
  return { step: 'items.put', row, vectors }
}

/** Removes what has expired; until then it is not answered either. */
export async function sweepItems({ store }: Deps): Promise<void> {
  const now = clock.now()
  for (;;) {
    const expired = await store.items.expired(now, REMOVED)
    if (expired.length === 0) return
    await store.apply(expired.map(item => ({ step: 'items.remove' as const, ...item, expired_at: now })))
  }
}
