/** The whole API below /api/agent: the first request starts Weft, which ends with Next. */
import { createHandler } from 'weft-server/handler'

const weft = createHandler({ app: './agent', basePath: '/api/agent' })

export { weft as DELETE, weft as GET, weft as PATCH, weft as POST, weft as PUT }
export const dynamic = 'force-dynamic'
