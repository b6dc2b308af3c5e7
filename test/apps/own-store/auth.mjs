// Callers are named by a header. The operator sees every item, the others those with their name in the value.
import { Auth } from '@langchain/langgraph-sdk/auth'

export const auth = new Auth()
  .authenticate(request => request.headers.get('x-user') ?? 'operator')
  .on('store', ({ user }) => (user.identity === 'operator' ? true : { owner: user.identity }))
