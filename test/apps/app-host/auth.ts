/** Handlers that do what the tests ask for in headers of the request. */
import { Auth, HTTPException } from '@langchain/langgraph-sdk/auth'

export const auth = new Auth()
  .authenticate(async request => {
    const wish = request.headers.get('x-wish') ?? ''
    if (wish === 'exit') process.exit(3)
    if (wish === 'block') for (;;);
    if (wish === 'hang') return new Promise(() => {})
    if (wish === 'throw') throw new Error('a secret detail')
    if (wish === 'nothing') return undefined as never
    if (wish === 'body') return (await request.json()).who
    if (wish === 'refuse')
      throw new HTTPException(401, { message: 'Who are you?', headers: { 'WWW-Authenticate': 'X' } })
    const user = request.headers.get('x-user')
    if (user === null) throw new HTTPException(401)
    return {
      identity: user,
      permissions: ['read'],
      leaked: Object.keys(process.env).filter(name => /^(WEFT_|NATS_|MONGODB_URL)/.test(name)),
    }
  })
  .on('threads', ({ value, user }) => {
    const metadata = (value.metadata ??= {}) as { owner?: string }
    metadata.owner = user.identity
    return { owner: user.identity }
  })
  .on('threads:delete', () => false)
  .on('assistants', () => 'nonsense' as never)
  .on('store:get', ({ value, user }) => {
    value.namespace = [user.identity, ...value.namespace!]
  })
