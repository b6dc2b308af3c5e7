/** The output of commands: the JSON documents of docs/command-line.md, colours and progress bars on a terminal. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Client } from '@langchain/langgraph-sdk'
import t, { type Test } from 'tap'
import { makeProgram } from '../../cli/program.js'
import { root } from '../../cli/root.js'
import { spawnWeft, startCluster } from '../helpers/cluster.js'
import { runWeft } from '../helpers/command.js'
import { commandLines } from '../helpers/command-lines.js'
import { until } from '../helpers/until.js'

t.setTimeout(120_000)

interface Row {
  form: string
  keys: string[]
  optional: string[]
}

/** By the name of a command: the form of its answer, and the keys of the object, of each line, or of each of a list. */
const documented = new Map<string, Row>()
const [, table = ''] = readFileSync(join(root, 'docs/command-line.md'), 'utf8').split('<!-- json -->')
for (const [, names = '', form = '', keys = ''] of table.matchAll(/^\| (`weft .*?) \| (.*?) \| (.*) \|$/gm)) {
  const all = [...keys.matchAll(/`(\w+)(\??)`/g)]
  const of = (mark: string) => all.filter(([, , found]) => found === mark).map(([, key = '']) => key)
  for (const [, name = ''] of names.matchAll(/`weft ([\w ]+)`/g))
    documented.set(name, { form, keys: of(''), optional: of('?') })
}

t.test('every command with --json is in the table of docs/command-line.md', async t => {
  const withJson = [...commandLines(makeProgram())].filter(([, { options }]) =>
    options.some(({ long }) => long === '--json'),
  )
  t.same([...documented.keys()].sort(), withJson.map(([name]) => name).sort())
})

/** Compares the output of the command of this name with the table. */
function check(t: Test, name: string, stdout: string): unknown {
  const { form, keys, optional } = documented.get(name)!
  const value =
    form === 'lines'
      ? stdout
          .trim()
          .split('\n')
          .map(line => JSON.parse(line) as object)
      : (JSON.parse(stdout) as object)
  t.equal(Array.isArray(value), form !== 'object', `${name}: ${form}`)
  if (keys.length === 0) return value
  for (const each of Array.isArray(value) ? (value as object[]) : [value])
    t.same(
      Object.keys(each)
        .filter(key => !optional.includes(key))
        .sort(),
      [...keys].sort(),
      `keys of ${name}`,
    )
  return value
}

t.test('--json prints the documents of the table', async t => {
  const folder = t.testdir()
  const [here, there] = await Promise.all([
    startCluster({ app: 'test/apps/basic', flags: ['--json'] }),
    startCluster({ app: 'test/apps/basic' }),
  ])
  t.teardown(() => Promise.all([here.stop(), there.stop()]))
  const client = new Client({ apiUrl: here.url })
  const made = await client.threads.create()
  const thread = made.thread_id
  const run = await client.runs.create(thread, 'counter', { input: { steps: 1 }, streamResumable: true })
  await client.runs.join(thread, run.run_id)
  const slow = await client.runs.create(thread, 'slow', { input: { ms: 60_000 } })

  const first = () =>
    here
      .output()
      .split('\n')
      .find(line => line.startsWith('{"url"'))
  await until(async () => first() !== undefined)
  check(t, 'start', first()!)

  const data = ['--data', here.data]
  async function answer(name: string, ...args: string[]) {
    const ended = await runWeft([...name.split(' '), ...args, '--json'], { WEFT_URL: here.url, MONGODB_URL: '' })
    t.equal(ended.code, 0, `${name}: ${ended.stderr}`)
    return check(t, name, ended.stdout)
  }
  await answer('new', join(folder, 'app'))
  const { id } = (await answer('keys create', 'ada', '--scope', 'run', ...data)) as { id: string }
  await answer('keys list', ...data)
  await answer('keys revoke', id, ...data)
  await answer('doctor', '--port', '0', '--app', 'test/apps/basic', '--data', folder)
  if (!process.env.MONGODB_URL) {
    await answer('backup', join(folder, 'copy'), ...data)
    await answer('restore', join(folder, 'copy'), '--data', join(folder, 'restored'))
  }
  await answer('size', '--runs', '1')
  await answer('settings')
  await answer('runs list')
  await answer('runs tail', run.run_id)
  await answer('runs cancel', slow.run_id, '--thread', thread)
  await answer('threads list')
  await answer('threads get', thread)
  const { thread_id: waiting } = await client.threads.create()
  await client.runs.wait(waiting, 'ask', { input: {} })
  await answer('threads answer', waiting)
  await answer('threads answer', waiting, '--approve')
  await answer('import', here.url, '--url', there.url, '--state', join(folder, 'state'))
  await answer('threads delete', thread)
  const app = t.testdir({ 'langgraph.json': '{"graphs":{"a":"./none.mjs:graph"}}' })
  await answer('deploy', app, '--name', 'app', '--no-wait', ...data)

  for (const [name, ...flags] of [['edge', '--port', '0'], ['graphs']] as const) {
    const child = spawnWeft([name, '--json', '--app', 'test/apps/basic', ...data, ...flags])
    let stdout = ''
    child.stdout!.on('data', part => (stdout += part))
    await Promise.race([until(async () => stdout.endsWith('\n'), 60_000), once(child, 'close')])
    check(t, name, stdout)
    child.kill('SIGTERM')
    if (child.exitCode === null) await once(child, 'close')
  }
})

/** The command on a terminal. */
function onTerminal(args: string[], env: { [name: string]: string }) {
  const weft = [process.execPath, join(root, 'dist/cli/weft.js'), ...args].map(word => `'${word}'`).join(' ')
  const child = spawn('script', ['-qefc', weft, '/dev/null'], { env: { ...process.env, ...env } })
  let output = ''
  child.stdout.on('data', part => (output += part))
  const ended = once(child, 'close').then(([code]) => code as number)
  return { output: () => output, ended, type: (keys: string) => void child.stdin.write(keys) }
}

/** The sequences that set a colour. */
const COLOUR = /\u001b\[[\d;]*m/

t.test('NO_COLOR switches the colours of a terminal off', async t => {
  for (const args of [['settings'], ['size', '--runs', '1'], ['doctor', '--port', '0']])
    for (const NO_COLOR of ['', '1']) {
      const command = onTerminal(args, { NO_COLOR })
      await command.ended
      t.equal(COLOUR.test(command.output()), NO_COLOR === '', `${args[0]} with NO_COLOR=${NO_COLOR}`)
    }
})

t.test('Ctrl-C ends a command while its progress bar is shown, and shows the cursor again', async t => {
  const server = createServer((_, response) => void setTimeout(() => response.writeHead(204).end(), 100))
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const ids = Array.from({ length: 2_000 }, (_, i) => `${i}`)
  const command = onTerminal(['threads', 'delete', ...ids, '--url', `http://127.0.0.1:${port}`], {})
  await until(async () => /delete .*%/.test(command.output()), 30_000)
  command.type('\u0003')
  t.equal(await command.ended, 130)
  t.match(command.output(), /\u001b\[\?25h/)
})
