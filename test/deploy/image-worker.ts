/** The process that an image of a deployment runs, `weft graphs`, for engines and clusters of the tests. */
import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { root } from '../../cli/root.js'

const WEFT = fileURLToPath(new URL('../../cli/weft.js', import.meta.url))

interface WorkerOptions {
  /** Folder of the application in the image. */
  app: string
  /** The environment that the driver gave the container. */
  env: { [name: string]: string }
  /** A part of its stderr. */
  onOutput(text: string): void
  onExit(code: number): void
}

/** Returns how to send it a signal. */
export function startImageWorker({ app, env, onOutput, onExit }: WorkerOptions): (signal: string) => void {
  const child = fork(WEFT, ['graphs'], {
    cwd: root,
    env: { ...env, PATH: process.env.PATH, WEFT_APP: app },
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    execArgv: [],
  })
  child.stderr!.on('data', text => onOutput(String(text).trimEnd()))
  child.once('exit', code => onExit(code ?? 137))
  return signal => void child.kill(signal as NodeJS.Signals)
}
