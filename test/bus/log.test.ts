import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { prettyLine } from '../../bus/log-pretty.js'
import { sourceStack } from '../../bus/log-stack.js'
import { root } from '../../cli/root.js'
import { readConfig } from '../../schemas/config.js'

const time = new Date(2026, 10, 22, 9, 5, 7).getTime()
const line = (record: object) => JSON.stringify({ level: 30, time, pid: 1, name: 'edge', ...record })

t.test('a line for a person: time, level, role, message, fields', t => {
  t.equal(
    prettyLine(line({ msg: 'run ended', run_id: 'r1', ms: 12, status: 'success' }), false),
    '09:05:07 info  edge      run ended run_id=r1 ms=12 status=success\n',
  )
  t.equal(
    prettyLine(line({ level: 40, msg: 'm', detail: 'two words', list: ['a'], none: null, empty: '' }), false),
    '09:05:07 warn  edge      m detail="two words" list=["a"] empty=""\n',
  )
  t.match(prettyLine(line({ msg: 'm' }), true), /\x1b\[32minfo/)
  t.end()
})

t.test('an error: its message on the line, its stack for the levels that need attention', t => {
  const err = {
    type: 'TypeError',
    message: 'no name',
    stack: 'TypeError: no name\n    at f (a.ts:1:2)\n    at g (b.ts:3:4)',
  }
  t.equal(
    prettyLine(line({ level: 50, msg: 'failed', err }), false),
    '09:05:07 error edge      failed error="TypeError: no name"\n    at f (a.ts:1:2)\n    at g (b.ts:3:4)\n',
  )
  t.equal(
    prettyLine(line({ level: 40, msg: 'failed', err }), false),
    '09:05:07 warn  edge      failed error="TypeError: no name"\n',
  )
  t.end()
})

t.test('a logged text cannot fake a line or move the cursor', t => {
  const text = prettyLine(line({ msg: 'm', path: '/a\n09:05:07 error fake\x1b[2J\u009b' }), false)
  t.equal(text.split('\n').length, 2)
  t.match(text, 'path="/a\\n09:05:07 error fake\\x1b[2J\\x9b"')
  t.ok(prettyLine(line({ msg: 'm', long: 'x'.repeat(10_000) }), false).length < 600)
  t.equal(prettyLine('no JSON\n', false), 'no JSON\n')
  t.end()
})

t.test('LOG_FORMAT: JSON unless it says pretty; auto looks at the terminal', async t => {
  const log = join(root, 'dist/bus/log.js')
  async function lineOf(format: string, command: string[]) {
    const [program, ...args] = command as [string, ...string[]]
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, FORMAT: format } })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', part => (output += part))
    await once(child, 'close')
    return output
  }
  const code = `import(${JSON.stringify(log)}).then(({ openLog }) => openLog('edge', 'info', process.env.FORMAT).info({ a: 1 }, 'hi'))`
  const node = [process.execPath, '-e', code]
  t.match(await lineOf('json', node), /^\{"level":30,.*"msg":"hi"\}\n$/)
  t.match(await lineOf('auto', node), /^\{"level":30,.*"msg":"hi"\}\n$/, 'a pipe is no terminal')
  t.match(await lineOf('pretty', node), /^\d\d:\d\d:\d\d info {2}edge {6}hi a=1\n$/)
  t.throws(() => readConfig({ LOG_FORMAT: 'xml' }), { message: 'LOG_FORMAT must be auto, pretty, json, not "xml"' })
  t.equal(readConfig({}).log_format, 'auto')
})

t.test('the stack of an error names the source, not the bundle that was executed', t => {
  const lineOf = (file: string) =>
    readFileSync(join(root, file), 'utf8')
      .split('\n')
      .findIndex(line => line.includes('must be a whole number')) + 1
  const at = (file: string) => `${join(root, 'dist/programs', file)}:${lineOf(`dist/programs/${file}`)}:15`
  const source = `cli/program.ts:${lineOf('cli/program.ts')}`
  const [message, named, bare] = sourceStack(
    `Error: x\n    at f (file://${at('weft.js')})\n    at ${at('weft.js')}`,
  ).split('\n')
  t.equal(message, 'Error: x')
  t.ok(named!.startsWith(`    at f (${source}:`), named!)
  t.ok(bare!.startsWith(`    at ${source}:`), bare!)
  t.equal(sourceStack('at /a/dist/programs/none.js:1:2'), 'at /a/dist/programs/none.js:1:2', 'no map')
  t.end()
})
