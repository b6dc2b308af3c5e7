/** Every user owns what they make: the name is in the token. Headers of the request ask for what a test needs. */
import { Auth, HTTPException } from '@langchain/langgraph-sdk/auth'

const USERS = ['alice', 'bob', 'carol']
let authentications = 0

export const auth = new Auth()
  .authenticate(async request => {
    const wish = request.headers.get('x-wish')
    if (request.url.includes('undefined')) throw new Error(`a wrong URL: ${request.url}`)
    if (wish === 'throw') throw new Error('a secret detail')
    if (wish === 'nothing') return undefined as never
    if (wish === 'nonsense') return { permissions: ['all'] } as never
    if (wish === 'number') return 17 as never
    if (wish === 'hang') return new Promise(() => {})
    const name = /^Bearer (\w+)$/.exec(request.headers.get('authorization') ?? '')?.[1] ?? ''
    if (!USERS.includes(name)) throw new HTTPException(401, { message: 'Who are you?' })
    return { identity: name, permissions: [`${name}:all`], wish, authentications: ++authentications }
  })
  .on('*', ({ event, value, user }) => {
    const { wish } = user as { wish?: string }
    if (wish === 'handler:throw') throw new Error('a secret detail')
    if (wish === 'handler:false') return false
    if (wish === 'handler:number') return 17 as never
    if (wish === 'handler:list') return [] as never
    if (wish === 'handler:operator') return { owner: { $ne: user.identity } } as never
    if (wish === 'handler:undefined') return { owner: undefined } as never
    if (wish === 'handler:hang') return new Promise(() => {}) as never
    if (wish === `deny ${event}`) return false
    const { metadata } = value as { metadata?: { owner?: string } }
    if (metadata !== undefined && metadata !== null) metadata.owner = user.identity
    return { owner: user.identity }
  })
  .on('store', ({ value, user }) => {
    const { wish } = user as { wish?: string }
    if (wish?.startsWith('handler:')) return 17 as never
    const named = value as { namespace?: string[] | null }
    // Carol has a part of the store of her own; the others share it and see what names them.
    if (user.identity !== 'carol') return { namespace: { $contains: user.identity } } as never
    named.namespace = ['of-carol', ...(named.namespace ?? [])]
    return undefined
  })
