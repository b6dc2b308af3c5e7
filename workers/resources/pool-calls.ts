/**
 * The calls of graph workers. The broker says who calls (schemas/subjects.ts Sender): the application of a call is that of
 * its sender, never one that its head names.
 */
import { checkAs } from '../../bus/decode.js'
import { type Handler, jsonHandler } from '../../bus/serve.js'
import { type Registration, validateRegistration } from '../../schemas/announcements.js'
import { type CallHead, validatePoolHead } from '../../schemas/calls.js'
import { type ItemBatch, validateItemBatch } from '../../schemas/items/items.js'
import { register } from './assistants/register.js'
import { checkpoints } from './checkpoints.js'
import type { Deps } from './context.js'
import { batch } from './items/batch.js'
import { leaseOf, leases, requireSender } from './runs/lease.js'

type Handlers = { [verb: string]: Handler }

export const poolCallHandlers = (deps: Deps) => ({
  assistants: ofSender({
    register: jsonHandler<Registration>(validateRegistration, (body, { sender }) =>
      register(body, requireSender(sender), deps),
    ),
  }),
  checkpoints: ofSender(checkpoints(deps)),
  items: ofSender({
    batch: jsonHandler<ItemBatch>(validateItemBatch, (body, { head }) => batch(deps, leaseOf(head.lease), body)),
  }),
  runs: ofSender(leases(deps)),
})

/** Passes on what graph workers may say in the head of a call, and the application of the sender. Throws invalid for another form. */
function ofSender(handlers: Handlers): Handlers {
  return Object.fromEntries(
    Object.entries(handlers).map(([verb, { handle, ...rest }]) => {
      const handleOwn: Handler['handle'] = (value, context) => {
        const { request_id, lease, kept_until, traceparent } = checkAs(context.head, validatePoolHead, 'the head')
        const head: CallHead = { request_id, app: requireSender(context.sender).app }
        if (lease !== undefined) head.lease = lease
        if (kept_until !== undefined) head.kept_until = kept_until
        if (traceparent !== undefined) head.traceparent = traceparent
        return handle(value, { ...context, head })
      }
      return [verb, { ...rest, handle: handleOwn }]
    }),
  )
}
