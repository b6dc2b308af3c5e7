/**
 * A server of test/apps/basic that several test files use at the same time, each with its own threads and assistants: a
 * start takes 2 s of CPU time. It ends with the test run.
 */
import { fork } from 'node:child_process'
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Ready } from '../../cli/commands/roles.js'
import { root } from '../../cli/root.js'

export interface SharedServer {
  url: string
  /** Why a file that used it may have failed; null while it runs. */
  ended(): string | null
  stop(): Promise<void>
}

const STOP_MS = 15_000

/** Resolves when it is ready; rejects with one sentence when it ends before. `log` receives what it prints; `node` executes it. */
export async function startSharedServer(
  log: string,
  node: string,
  env: { [name: string]: string | undefined },
): Promise<SharedServer> {
  mkdirSync(dirname(log), { recursive: true })
  const output = openSync(log, 'w')
  const data = mkdtempSync(join(tmpdir(), 'weft-'))
  const args = ['start', '--port', '0', '--app', 'test/apps/basic', '--data', data]
  const child = fork(join(root, 'dist/cli/weft.js'), args, {
    cwd: root,
    execPath: node,
    execArgv: [],
    stdio: ['ignore', output, output, 'ipc'],
    env: { ...env, NODE_OPTIONS: '', WEFT_TEST: '1' },
  })
  closeSync(output)
  let how: string | null = null
  const gone = new Promise<void>(done =>
    child.once('exit', (code, signal) => {
      how = `the shared server ended with ${signal ?? `exit code ${code}`}; its output is in ${log}`
      done()
    }),
  )
  const ready = new Promise<number>(done => child.once('message', message => done((message as Ready).port!)))
  const port = await Promise.race([ready, gone.then(() => Promise.reject(new Error(how!)))])
  return {
    url: `http://127.0.0.1:${port}`,
    ended: () => how,
    async stop() {
      const killer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
      child.kill('SIGTERM')
      await gone
      clearTimeout(killer)
      rmSync(data, { recursive: true, force: true })
    },
  }
}
