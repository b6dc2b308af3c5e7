/**
 * Listeners (docs/spec/control-plane.md#listeners) deploy into a cluster that the control plane does not reach. Weft has
 * none: its own deploy workers reach every engine and cluster. Clients ask for the list before they deploy an image.
 */
import { bytesHandler } from '../../../bus/serve.js'
import { fail } from '../../../schemas/errors.js'
import { openQuery, pathIds } from '../query.js'

export const listeners = {
  listeners: bytesHandler(async (_, { head }) => {
    const query = openQuery(head.query)
    const { offset } = query.page()
    query.done()
    return { body: JSON.stringify({ resources: [], offset }) }
  }),
  listener: bytesHandler(async (_, { head }) => {
    const [id] = pathIds(head.params, 'listener_id')
    throw fail('not_found', `Listener ID ${id} not found.`)
  }),
}
