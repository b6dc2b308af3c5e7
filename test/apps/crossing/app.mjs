/** Says what it got, and answers what it is told to answer. */
import { Hono } from 'hono'

export const app = new Hono()
  .all('/echo', c => c.json({ url: c.req.url, headers: [...c.req.raw.headers] }))
  .get('/answer', c => new Response('an answer', { headers: JSON.parse(c.req.query('headers')) }))
  // A built-in route that it passes on.
  .use('/threads/count', (_, next) => next())
