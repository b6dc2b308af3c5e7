import { Auth, HTTPException } from '@langchain/langgraph-sdk/auth'

export const auth = new Auth().authenticate(request => {
  const user = request.headers.get('x-user')
  if (user === null) throw new HTTPException(401, { message: 'Who are you?' })
  return user
})
