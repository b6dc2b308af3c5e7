/** Memory of large values is given back by a process that has become idle (store/garbage.ts). */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import t from 'tap'

const MB = 1024 * 1024
const LOOK_MS = 20
/** In these 2 s V8 does not collect by itself; it does so after eight. */
const LOOKS = 100
const garbage = new URL('../../store/garbage.js', import.meta.url).href
/** Holds 64 MB until a message comes, and says when the thread was looked at often enough. It allocates nothing later: that would collect, too. */
const PROGRAM = `
  const { parentPort } = require('node:worker_threads')
  import('${garbage}').then(({ collectLargeGarbage }) => {
    collectLargeGarbage(${LOOK_MS})
    let held = Array.from({ length: 4 }, () => Buffer.alloc(${16 * MB}, 1))
    parentPort.on('message', () => {
      held = null
      let looks = 0
      setInterval(() => ++looks === ${LOOKS} && parentPort.postMessage('looked'), ${LOOK_MS})
    })
    parentPort.postMessage('ready')
  })`

t.test('what was in use at a collection is collected when it is garbage later', async t => {
  const worker = new Worker(PROGRAM, { eval: true })
  t.teardown(() => worker.terminate())
  await once(worker, 'message')
  // Several collections have found it in use.
  await new Promise(done => setTimeout(done, 20 * LOOK_MS))
  const held = process.memoryUsage.rss()
  worker.postMessage('release')
  await once(worker, 'message')
  t.ok(held - process.memoryUsage.rss() > 48 * MB, 'given back')
})

const figures = new URL('../../bus/figures.js', import.meta.url).href
/** Opens files until there is no descriptor left, and says so after a few looks. */
const WITHOUT_FILES = `
  Promise.all([import('${garbage}'), import('${figures}')]).then(([{ collectLargeGarbage }, { openProcessFigures }]) => {
    const { openSync, closeSync } = require('node:fs')
    const { samples } = openProcessFigures({ version: '1.0.0', protocol: 1 })
    collectLargeGarbage(1)
    const opened = []
    try {
      for (;;) opened.push(openSync('/dev/null'))
    } catch {}
    const names = samples().map(({ name }) => name)
    let looks = 0
    setInterval(() => {
      if (++looks < 20) return
      opened.forEach(closeSync)
      console.log(JSON.stringify({ names, opened: opened.length }))
      process.exit(0)
    }, 1)
  })`

t.test('a process without a file descriptor goes on', async t => {
  const shell = ['-c', 'ulimit -n 64; exec "$0" -e "$1"', process.execPath, WITHOUT_FILES]
  const { stdout } = await promisify(execFile)('sh', shell)
  const { names, opened } = JSON.parse(stdout) as { names: string[]; opened: number }
  t.ok(opened > 0, `${opened} files`)
  t.ok(names.includes('weft_up'))
})
