/** The least that an application can do: compares a header. */
import { Auth, HTTPException } from '@langchain/langgraph-sdk/auth'

export const auth = new Auth().authenticate(request => {
  if (request.headers.get('authorization') !== 'Bearer bench') throw new HTTPException(401)
  return 'bench'
})
