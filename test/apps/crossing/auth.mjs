/** Everybody may do everything; the user says what the handler got. */
import { Auth, HTTPException } from '@langchain/langgraph-sdk/auth'

export const auth = new Auth().authenticate(request => {
  const headers = request.headers.get('x-refuse')
  if (headers !== null) throw new HTTPException(418, { message: '<script>x</script>', headers: JSON.parse(headers) })
  return { identity: 'somebody', url: request.url, headers: [...request.headers] }
})
