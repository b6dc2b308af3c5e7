/** A host that cannot be started because its parent has no file descriptor left ends like any other (workers/child/start.ts). */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'

const start = new URL('../../workers/child/start.js', import.meta.url).href
const PROGRAM = `
  import('${start}').then(({ startChild }) => {
    const { openSync, closeSync } = require('node:fs')
    const opened = []
    try {
      for (;;) opened.push(openSync('/dev/null'))
    } catch {}
    const seen = []
    const child = startChild({
      program: { command: process.execPath, args: ['-e', ''], env: {} },
      name: 'graph host',
      app: '/nowhere/langgraph.json',
      user: null,
    sandbox: null,
      onFrame() {},
      onNote() {},
      onMalformed: error => seen.push('malformed ' + error.message),
      onError: error => seen.push(error.code),
      onExit() {
        opened.forEach(closeSync)
        console.log(JSON.stringify(seen))
      },
    })
    child.send({ kind: 1 })
  })`

t.test('a child that cannot be started is reported, and its parent goes on', async t => {
  const shell = ['-c', 'ulimit -n 64; exec "$0" -e "$1"', process.execPath, PROGRAM]
  const { stdout } = await promisify(execFile)('sh', shell)
  t.same(JSON.parse(stdout), ['EMFILE'])
})
