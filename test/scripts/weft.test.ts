import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { allGone, below, exampleApp, spawnWeft, startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'

/** Runs the command to its end. */
async function weft(args: string[], env: { [name: string]: string } = {}) {
  const child = spawnWeft(args, env)
  let stdout = ''
  let stderr = ''
  child.stdout!.on('data', part => (stdout += part))
  child.stderr!.on('data', part => (stderr += part))
  const [code] = await once(child, 'close')
  return { code: code as number, stdout, stderr }
}

/** Polls until the answer is true; returns the duration. */
async function until(what: () => Promise<boolean>, ms = 10_000): Promise<number> {
  const since = Date.now()
  while (!(await what().catch(() => false))) {
    if (Date.now() - since > ms) throw new Error(`not within ${ms} ms`)
    await sleep(10)
  }
  return Date.now() - since
}

const ready = (url: string) => async () => (await fetch(`${url}/ready`)).status === 200

t.test('help, version', async t => {
  t.match(await weft(['help']), { code: 0, stdout: /weft start .*--app/ })
  t.match(await weft([]), { code: 0, stdout: /PORT/ })
  t.match(await weft(['--version']), { code: 0, stdout: /^\d+\.\d+\.\d+\n$/ })
})

t.test('a wrong command line gets one sentence and exit code 2', async t => {
  const folder = t.testdir({ broken: { 'langgraph.json': '{' }, empty: { 'langgraph.json': '{"graphs":{}}' } })
  const cases: [string[], RegExp][] = [
    [['start', '--prot', '1'], /Unknown option '--prot'/],
    [['serve'], /there is no command "serve"/],
    [['start', 'now'], /takes no argument "now"/],
    [['resources', '--port', '1'], /has no flag --port/],
    [['start', '--port', 'x'], /--port must be a whole number/],
    [['start', '--port', '70000'], /--port must be a whole number/],
    [['start', '--app', join(folder, 'none')], /there is no application at .*none: expected a langgraph\.json/],
    [['start', '--app', folder], /there is no application at .*langgraph\.json/],
    [['start', '--app', join(folder, 'broken')], /is not valid JSON/],
    [['start', '--app', join(folder, 'empty')], /names no graphs/],
    [['start', '--app', exampleApp, '--host', '0.0.0.0'], /--insecure/],
  ]
  const found = await Promise.all(cases.map(([args]) => weft(args)))
  for (const [i, [args, sentence]] of cases.entries()) {
    t.match(found[i], { code: 2, stderr: sentence }, args.join(' '))
    t.equal(found[i]!.stderr.trim().split('\n').length, 1)
  }
  t.match(await weft(['start'], { PORT: 'many' }), { code: 2, stderr: /PORT must be a number/ })
  for (const WEFT_PUBLIC_URL of ['weft.example', 'ftp://weft.example', 'https://me:secret@weft.example']) {
    const { code, stderr } = await weft(['start'], { WEFT_PUBLIC_URL })
    t.match({ code, stderr }, { code: 2, stderr: /WEFT_PUBLIC_URL must be an http or https URL/ })
    t.notMatch(stderr, /secret/)
  }
})

t.test('a taken port, and a role without a broker: one sentence', async t => {
  const server = createServer()
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  t.teardown(() => server.close())
  const port = `${(server.address() as AddressInfo).port}`
  const taken = await weft(['start', '--app', exampleApp, '--port', port, '--data', t.testdir()])
  t.match(taken, { code: 1, stderr: new RegExp(`^weft: port ${port} .* is taken.*\n$`) })
  t.match(await weft(['resources', '--data', t.testdir()]), { code: 1, stderr: /set NATS_URL, or give --data/ })
})

t.test('an application that cannot be loaded ends the start at once, with the reason', async t => {
  const app = t.testdir({ 'langgraph.json': '{"graphs":{"agent":"./none.mjs:graph"}}' })
  const { code, stderr } = await weft(['start', '--app', app, '--port', '0', '--data', join(app, 'data')])
  t.equal(code, 1)
  t.match(stderr, /none\.mjs/)
  t.match(stderr, /giving up/)
  t.notMatch(stderr, /starting it again/)
})

t.test('a started server', async t => {
  const cluster = await startCluster()
  const { url, data } = cluster
  const natsPid = () => Number(readFileSync(join(data, 'nats-server.pid'), 'utf8'))
  const natsPort = () => JSON.parse(readFileSync(join(data, 'nats-server.json'), 'utf8')).port as number
  // The process that runs the roles.
  const rolesPid = () =>
    below(cluster.launcher.pid).find(pid => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('roles-main'))

  await t.test('prints its address and how to stream and resume', async t => {
    t.equal((await fetch(`${url}/ready`)).status, 200)
    await until(async () => cluster.output().includes('last-event-id'))
    t.match(cluster.output(), new RegExp(`curl -N ${url}/runs/stream .*"stream_resumable":true`))
  })

  await t.test('a refused request is one line of the log', async t => {
    const refused = await fetch(`${url}/threads/00000000-0000-4000-8000-000000000000`)
    t.equal(refused.status, 404)
    const id = refused.headers.get('x-request-id')!
    await until(async () => cluster.output().includes(id))
    const lines = cluster
      .output()
      .split('\n')
      .filter(line => line.includes(id))
    t.equal(lines.length, 1)
    t.match(JSON.parse(lines[0]!), {
      level: 30,
      msg: 'request refused',
      status: 404,
      method: 'GET',
      detail: /not found/i,
    })
  })

  await t.test('its NATS server comes back at the same port after kill -9', async t => {
    const [pid, port] = [natsPid(), natsPort()]
    process.kill(pid, 'SIGKILL')
    await until(async () => natsPid() !== pid)
    const ms = await until(ready(url))
    t.equal(natsPort(), port)
    t.comment(`ready again after ${ms} ms`)
  })

  await t.test('its roles come back at the same address after kill -9', async t => {
    const pid = rolesPid()!
    process.kill(pid, 'SIGKILL')
    await allGone([pid])
    const ms = await until(ready(url))
    t.not(rolesPid(), pid)
    t.comment(`ready again after ${ms} ms`)
    // The system chose the port; now it is known before the graphs are loaded.
    const client = lines[0]!.connect(url)
    const { thread_id } = await client.threads.create()
    await client.runs.wait(thread_id, 'agent', { input: { messages: [{ role: 'user', content: 'hi' }] } })
    t.match(
      (await client.threads.getState(thread_id)).metadata,
      { langgraph_api_url: url },
      'runs know the address of the server',
    )
  })

  await t.test('SIGTERM ends everything, with exit code 0', async t => {
    const pids = cluster.pids()
    t.ok(pids.length >= 3, `${pids.length} processes`)
    t.equal(await cluster.stop(), 0)
    await allGone(pids)
  })
})

t.test('when the launcher is killed, all its processes end', async t => {
  const cluster = await startCluster({ env: { WEFT_STOP_MS: '2000' } })
  const pids = cluster.pids()
  cluster.launcher.kill('SIGKILL')
  await allGone(pids)
  t.pass('all gone')
  await cluster.stop()
})
