/** Progress of commands, on a terminal that `script` of util-linux makes (cli/terminal/progress.ts). */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { root } from '../../cli/root.js'

const run = promisify(execFile)
const progress = pathToFileURL(join(root, 'dist/cli/terminal/progress.js')).href
/** Prints "done" after the work; `body` is the work, with \`progress\` and \`sleep\`. */
const program = (body: string) =>
  `import { setTimeout as sleep } from 'node:timers/promises'
  const { withProgress } = await import('${progress}')
  await withProgress('getting it', async progress => { ${body} })
  console.log('done')`

async function onTerminal(body: string): Promise<string> {
  const command = `"${process.execPath}" --input-type=module -e "$PROGRAM"`
  const env = { ...process.env, PROGRAM: program(body), TERM: 'xterm', COLUMNS: '100' }
  const { stdout } = await run('script', ['-qefc', command, '/dev/null'], { env })
  return stdout
}

const skip = process.platform === 'linux' ? false : 'script has other options here'

t.test('seconds, until the work says how far it is; a line that is printed stands alone', { skip }, async t => {
  const shown = await onTerminal(`
    await sleep(2500)
    progress.clear()
    console.log('half of it is here')
    progress.update(512, 1024)
    await sleep(300)`)
  t.match(shown, /getting it 2 s/)
  // The text on the terminal after the line was cleared.
  t.match(shown, /\r\u001b\[Khalf of it is here\r\n/)
  t.match(shown, /getting it █{12}░{12} 50%/)
  t.match(shown, /done\r\n$/)
})

t.test('short work shows nothing', { skip }, async t => {
  t.equal(await onTerminal('progress.update(1, 2); progress.clear()'), 'done\r\n')
})

t.test('nothing is shown elsewhere than on a terminal', async t => {
  const args = ['--input-type=module', '-e', program('await sleep(2200); progress.update(1, 2)')]
  t.match(await run(process.execPath, args), { stdout: 'done\n', stderr: '' })
})
