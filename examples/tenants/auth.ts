/**
 * Who calls, and what each caller may see. Threads, their runs and crons belong to the user who made them; items of the
 * store are in a part per user. `support` reads the threads of everybody, and changes none.
 */
import { Auth, HTTPException } from '@langchain/langgraph-sdk/auth'

/** In production these are sessions of your application, or the claims of a JWT. */
const USERS = new Map(
  (process.env.TOKENS ?? '').split(' ').map(entry => {
    const [token = '', user = ''] = entry.split('=')
    const [identity = '', ...permissions] = user.split(':')
    return [token, { identity, permissions }]
  }),
)

export const auth = new Auth()
  .authenticate(request => {
    const [, token = ''] = /^Bearer (.+)$/.exec(request.headers.get('authorization') ?? '') ?? []
    const user = USERS.get(token)
    if (user === undefined) throw new HTTPException(401, { message: 'Send "Authorization: Bearer <token>"' })
    return user
  })
  // Whatever no handler below allows is refused.
  .on('*', () => false)
  // Assistants are the same for everybody, and nobody changes them.
  .on('assistants:read', () => true)
  .on('assistants:search', () => true)
  .on(['threads', 'crons'], ({ value, user }) => {
    if ('metadata' in value) value.metadata = { ...value.metadata, owner: user.identity }
    return { owner: user.identity }
  })
  .on(['threads:read', 'threads:search'], ({ user }) =>
    user.permissions.includes('support') ? true : { owner: user.identity },
  )
  // A namespace of clients becomes one below the name of the user, in whatever they do with it.
  .on('store', ({ value, user }) => {
    value.namespace = [user.identity, ...(value.namespace ?? [])]
    return true
  })
