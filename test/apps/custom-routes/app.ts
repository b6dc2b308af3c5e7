/** Routes, and middleware around the built-in routes. */

import { createNodeWebSocket } from '@hono/node-ws'
import { Client } from '@langchain/langgraph-sdk'
import { Hono } from 'hono'
import { HTTPException } from 'hono/http-exception'

let goOn = () => {}
let closed = 0
const seen: { path: string; headers: Record<string, string> }[] = []
const hooks: { run_id: string; status: string; query: string | undefined; signed: boolean }[] = []

export const app = new Hono()
const { injectWebSocket, upgradeWebSocket } = createNodeWebSocket({ app })

export { injectWebSocket }

app
  .use('*', async (c, next) => {
    seen.push({ path: c.req.path, headers: c.req.header() })
    if (c.req.header('x-stop') !== undefined) return c.text('stopped', 418)
    await next()
    c.header('x-middleware', 'yes')
  })
  .use('/runs/wait', async (c, next) => {
    const body = await c.req.json()
    const form = c.req.header('x-form') ?? 'json'
    body.input = { said: `${body.input.said}, changed${form === 'json' ? '' : ` as ${form}`}` }
    if (form === 'json') c.req.bodyCache.json = Promise.resolve(body)
    else if (form === 'text') c.req.bodyCache.text = Promise.resolve(JSON.stringify(body))
    else c.req.raw = new Request(c.req.raw, { body: JSON.stringify(body) })
    await next()
  })
  .get('/custom/hello/:name', c => c.json({ hello: c.req.param('name'), q: c.req.query('q') }))
  .get('/info', c => c.json({ mine: true }))
  .get('/threads/mine', c => c.json({ mine: true }))
  .get('/docs/:page', c => c.json({ mine: true }))
  .post('/custom/echo', c => new Response(c.req.raw.body, { headers: { 'content-type': 'application/octet-stream' } }))
  .post('/custom/hook', async c => {
    const { run_id, status } = await c.req.json()
    const signed = c.req.header('webhook-id') === run_id && /^v1,/.test(c.req.header('webhook-signature') ?? '')
    hooks.push({ run_id, status, query: c.req.query('from'), signed })
    return c.body(null, 204)
  })
  .get('/custom/hooks', c => c.json(hooks))
  .get('/custom/seen', c => c.json(seen))
  .get('/custom/go-on', c => {
    goOn()
    return c.body(null, 204)
  })
  .get('/custom/ticks', () => {
    let n = 0
    const body = new ReadableStream({
      async pull(controller) {
        if (n === 3) return controller.close()
        // The others leave when the first one was read: the test asks for them.
        if (n === 1) await new Promise<void>(done => (goOn = done))
        controller.enqueue(new TextEncoder().encode(`data: ${n++}\n\n`))
      },
    })
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
  })
  .get('/custom/api', async c => {
    const client = new Client()
    const thread = await client.threads.create()
    const values = await client.runs.wait(thread.thread_id, 'agent', { input: { said: 'from a route' } })
    return c.json(values)
  })
  .get('/custom/refuse', () => {
    throw new HTTPException(409, { message: 'my own refusal' })
  })
  .get('/custom/throw', () => {
    throw new Error('a secret detail')
  })
  .get('/custom/exit', () => process.exit(3))
  .get('/custom/cookies', c => {
    c.header('set-cookie', 'a=1')
    c.header('set-cookie', 'b=2', { append: true })
    return c.redirect('/elsewhere')
  })
  .get(
    '/custom/socket',
    upgradeWebSocket(c => {
      const user = c.req.header('x-user') ?? 'nobody'
      return {
        onOpen: (_, ws) => ws.send(`hello ${user}`),
        onMessage({ data }, ws) {
          if (data === 'close') ws.close(4000, 'as you wish')
          else if (data === 'many') for (let i = 0; i < 200; i++) ws.send(`${i} ${'x'.repeat(50_000)}`)
          else if (data === 'exit') process.exit(3)
          else ws.send(data as string)
        },
        onClose: ({ code }) => {
          closed = code
        },
      }
    }),
  )
  .get('/custom/closed', c => c.json({ code: closed }))
  .notFound(c => c.text('the notFound of the application', 404))
