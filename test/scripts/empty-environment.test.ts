/** Both commands of the README, as a timer or a plain container starts them: with HOME and PATH alone, without a locale. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../../cli/root.js'

t.setTimeout(180_000)

function startEmpty(command: string, ...args: string[]): { child: ChildProcess; out: () => string } {
  const { HOME, PATH } = process.env
  const child = spawn(join(root, command), args, { env: { HOME, PATH }, cwd: '/', stdio: ['ignore', 'pipe', 'pipe'] })
  let out = ''
  for (const stream of [child.stdout!, child.stderr!]) stream.on('data', text => (out += text))
  return { child, out: () => out }
}

t.test('./scripts/test', async t => {
  const { child, out } = startEmpty('scripts/test', '--only', 'schemas/json')
  const [code] = await once(child, 'close')
  t.match(out(), /\n[1-9]\d* passed, 0 failed\n$/)
  t.equal(code, 0)
})

t.test('./scripts/start', async t => {
  const { child, out } = startEmpty('scripts/start', '--json', '--port', '0', '--data', t.testdir())
  const line = /^\{"url":"(.*?)"/m
  while (!line.test(out()))
    if ((await Promise.race([once(child.stdout!, 'data'), once(child, 'close')])).length > 1) break
  const url = line.exec(out())?.[1]
  t.ok(url, out())
  t.equal((await fetch(`${url}/ok`)).status, 200)
  child.kill('SIGTERM')
  const [code] = await once(child, 'close')
  t.equal(code, 0)
})
