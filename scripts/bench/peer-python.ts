/**
 * The peers of `--python`: the library alone in one process, and the official development server for Python, both in an
 * environment that is made once in the cache and is also that of the measured Weft.
 */
import { execFile, spawn } from 'node:child_process'
import { cpSync, mkdtempSync, openSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { freePort } from '../../cli/ports.js'
import { root } from '../../cli/root.js'
import { hasVenv, venvOf } from '../checks/venv.js'
import type { LimitAnswer, LimitOrder } from './limit.js'
import { spreadOf } from './load.js'
import { endsWithUs, type Kind, plainEnv, type Server, stopAll, untilServed } from './server.js'

export const pythonApp = join(root, 'test/apps/bench-py')

const requirements = join(pythonApp, 'requirements.txt')
/** The interpreter of the environment. */
export const benchPython = (): Promise<string> => venvOf(requirements)
/** It was made before. */
export const hasBenchPython = (): boolean => hasVenv(requirements)

/** The graphs invoked directly by the library. */
export async function measurePythonLimit(python: string, order: Omit<LimitOrder, 'app'>): Promise<LimitAnswer> {
  const { kind, warm, seconds } = order
  const args = ['-B', join(pythonApp, 'limit.py'), kind, `${warm}`, `${seconds}`]
  const { stdout } = await promisify(execFile)(python, args, {
    env: plainEnv(),
    timeout: (warm + seconds) * 1000 + 60_000,
    maxBuffer: 64 * 1024 ** 2,
  })
  const { samples, ...figures } = JSON.parse(stdout) as Omit<LimitAnswer, 'latency'> & { samples: number[] }
  return { ...figures, latency: spreadOf(samples) }
}

/** `langgraph dev`: in memory, with its default settings but for the reload of changed files. */
export const pythonDevServer = (python: string): Kind => ({
  name: 'dev-server',
  async start({ wait = true, app: source = pythonApp } = {}) {
    // The server writes a folder beside the graphs.
    const app = mkdtempSync(join(tmpdir(), 'weft-bench-'))
    cpSync(source, app, { recursive: true })
    const port = await freePort()
    const log = join(app, 'bench.log')
    const out = openSync(log, 'a')
    const args = ['dev', '--no-browser', '--no-reload', '--host', '127.0.0.1', '--port', `${port}`]
    const child = endsWithUs(
      spawn(join(dirname(python), 'langgraph'), args, {
        cwd: app,
        stdio: ['ignore', out, out],
        env: { ...plainEnv(), LANGSMITH_TRACING: 'false' },
      }),
    )
    const server: Server = {
      name: 'dev-server',
      port,
      gapless: false,
      // It stores its data repeatedly.
      restless: true,
      pids: () => [child.pid!],
      data: null,
      monitor: null,
      stop: () => stopAll([child], app),
    }
    if (wait) await untilServed(server, child, log)
    return server
  },
})
