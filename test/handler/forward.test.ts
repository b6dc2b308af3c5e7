/** The requests of a handler to Weft, and the answers that it passes back: headers, bodies as streams, disconnects, errors. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestOptions, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createHandler } from '../../handler/handler.js'
import { until } from '../helpers/until.js'
import { SERVERS } from './servers.js'

t.setTimeout(60_000)
const MB = 1024 * 1024

/** In the place of Weft. */
async function inPlace(t: Test, answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function textOf(body: IncomingMessage): Promise<string> {
  let text = ''
  for await (const part of body) text += part
  return text
}

async function get(url: string, options: RequestOptions = {}): Promise<IncomingMessage & { text: string }> {
  const [answer] = (await once(request(url, { agent: false, ...options }).end(), 'response')) as [IncomingMessage]
  return Object.assign(answer, { text: await textOf(answer) })
}

for (const [name, open] of Object.entries(SERVERS))
  t.test(name, async t => {
    const around = async (t: Test, url: string, headers = {}) => {
      const server = await open({ url }, { headers })
      t.teardown(() => server.close())
      return server.url
    }

    t.test('headers of one connection stay there, and those of the server around are added', async t => {
      const url = await inPlace(t, ({ headers }, response) => {
        response.setHeader('Set-Cookie', ['a=1', 'b=2'])
        response.writeHead(200, { Connection: 'x-here', 'X-Here': '1', 'Content-Location': '/threads/x' })
        response.end(JSON.stringify(headers))
      })
      const outer = await around(t, url, { 'X-User': 'alice', 'x-role': null })
      const { host } = new URL(outer)
      const answer = await get(`${outer}/threads`, {
        headers: {
          connection: 'x-there',
          'x-there': '1',
          te: 'trailers',
          'proxy-authorization': 'Basic Zm9vOmJhcg==',
          origin: `http://${host}`,
          'sec-fetch-site': 'same-origin',
          'x-user': 'mallory',
          'x-role': 'admin',
          cookie: 'c=3',
        },
      })
      t.same(JSON.parse(answer.text), {
        host: new URL(url).host,
        connection: 'keep-alive',
        cookie: 'c=3',
        'x-user': 'alice',
      })
      t.same(answer.headers['set-cookie'], ['a=1', 'b=2'])
      t.equal(answer.headers['x-here'], undefined)
      t.equal(answer.headers['content-location'], '/threads/x', 'clients put it behind their base URL')
      const other = await get(`${outer}/threads`, { headers: { origin: 'http://elsewhere.example' } })
      t.match(JSON.parse(other.text), { origin: 'http://elsewhere.example' })
    })

    t.test('the path is that below the base path, and a redirect gets it', async t => {
      const url = await inPlace(
        t,
        ({ url }, response) => void response.writeHead(303, { Location: '/console' }).end(url),
      )
      const outer = await around(t, url)
      const answer = await get(`${outer}/a%2Fb//c?d=%20`)
      t.match([answer.headers.location, answer.text], ['/agent/console', '/a%2Fb//c?d=%20'])
      t.equal((await get(`${outer}/../threads`, { path: '/agent/%2e%2e/threads' })).statusCode, 404)
    })

    t.test('bodies are streams in both directions', async t => {
      const url = await inPlace(t, (incoming, response) => {
        response.flushHeaders()
        incoming.pipe(response)
      })
      const outgoing = request(`${await around(t, url)}/runs`, { method: 'POST', agent: false })
      outgoing.setHeader('content-type', 'application/octet-stream')
      outgoing.write('first')
      const [answer] = (await once(outgoing, 'response')) as [IncomingMessage]
      t.equal(`${(await once(answer, 'data'))[0]}`, 'first')
      outgoing.end('second')
      t.equal(await textOf(answer), 'second')
    })

    t.test('who does not read is not read for, and who disconnects does so from Weft', async t => {
      let written = 0
      const closed = new Set<string | undefined>()
      let response: ServerResponse | undefined
      const url = await inPlace(t, async (incoming, out) => {
        response = out.once('close', () => closed.add(incoming.url))
        if (incoming.url === '/late') return
        while (written < 256 * MB && !out.destroyed) {
          written += MB
          if (!out.write(Buffer.alloc(MB))) await Promise.race([once(out, 'drain'), once(out, 'close')])
        }
      })
      const outer = await around(t, url)
      const reader = request(`${outer}/runs`, { agent: false }).end()
      const [answer] = (await once(reader, 'response')) as [IncomingMessage]
      let before = -1
      // The buffers of the kernel are full when nothing is written any more.
      await until(async () => {
        const is = written === before
        before = written
        await sleep(100)
        return is && response!.writableNeedDrain
      })
      t.ok(written < 64 * MB, `${written / MB} MB`)
      answer.destroy()
      await until(() => closed.has('/runs'))
      response = undefined
      const waiting = request(`${outer}/late`, { agent: false }).end()
      waiting.on('error', () => {})
      await until(() => response !== undefined)
      waiting.destroy()
      await until(() => closed.has('/late'), 10_000)
    })

    t.test('a Weft that fails is an error of the API', async t => {
      const url = await inPlace(t, (incoming, response) => {
        if (incoming.url === '/none') return void incoming.socket.destroy()
        response.write('half')
        setImmediate(() => incoming.socket.destroy())
      })
      const outer = await around(t, url)
      const broken = await get(`${outer}/none`)
      t.match(
        [broken.statusCode, broken.headers['content-type'], JSON.parse(broken.text)],
        [502, 'application/json', { detail: String }],
      )
      await t.rejects(get(`${outer}/half`), 'an answer that is cut is not one that ends')
      const gone = await get(`${await around(t, 'http://127.0.0.1:1')}/threads`)
      t.match([gone.statusCode, JSON.parse(gone.text)], [503, { detail: 'Weft cannot be reached at the moment' }])
    })
  })

t.test('the function of the headers gets the request, and a Request without a length is sent', async t => {
  const url = await inPlace(t, async (incoming, response) => {
    response.end(JSON.stringify([incoming.url, incoming.headers['x-user'], await textOf(incoming)]))
  })
  const headers = (asked: object) => ({ 'x-user': (asked as Request).headers.get('cookie') })
  const weft = createHandler({ url: `${url}/below/`, basePath: '/agent/', headers })
  for (const method of ['POST', 'DELETE']) {
    const asked = new Request('http://x/agent/store', { method, body: 'text', headers: { cookie: 'alice' } })
    t.same(await (await weft(asked, { params: {} })).json(), ['/below/store', 'alice', 'text'], method)
  }
  t.throws(() => createHandler({ url: 'ftp://x' }), { message: /^url: expected http/ })
})
