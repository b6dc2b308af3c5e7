/**
 * The folder of a stopped development server as the source of an import. `.langgraph_api` holds pickles of that server's
 * own classes (Python) or its own format (JavaScript), which it alone reads; it removes what it cannot read. So the server
 * that the project has is started on a copy, at a port of this machine, without workers: it executes no run.
 */
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, delimiter, dirname, join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { withoutSecrets } from '../../../../schemas/config.js'
import { freePort } from '../../../ports.js'
import { spawnTied } from '../../../tied-process.js'
import { UserError } from '../../../user-error.js'
import type { Client } from '../../client.js'
import { serverSource } from './server.js'
import type { Source } from './source.js'

const DATA = '.langgraph_api'
const START_MS = 180_000
const LOOK_MS = 200
const STOP_MS = 10_000

export const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false

/** `given`: the project, or the folder of the data in it. */
export async function folderSource(given: string, open: (url: string) => Client): Promise<Source> {
  const project = basename(resolve(given)) === DATA ? dirname(resolve(given)) : resolve(given)
  if (!isFolder(join(project, DATA))) throw new UserError(`${project} has no ${DATA} of a development server`, 2)
  const command = commandOf(project)
  const copy = mkdtempSync(join(tmpdir(), 'weft-import-'))
  // The server writes these two.
  for (const name of readdirSync(project))
    if (name !== DATA && name !== '.gitignore') symlinkSync(join(project, name), join(copy, name))
  const modules = nearest(project, 'node_modules')
  if (modules !== null && dirname(modules) !== project) symlinkSync(modules, join(copy, 'node_modules'))
  cpSync(join(project, DATA), join(copy, DATA), { recursive: true })
  const port = await freePort()
  const args = ['dev', '--no-browser', '--no-reload', '--n-jobs-per-worker', '0', '--port', `${port}`]
  const hosted = ['--host', '127.0.0.1']
  const child = spawnTied(
    [command.file, ...(command.reloads ? args : args.filter(arg => arg !== '--no-reload')), ...hosted],
    {
      cwd: copy,
      // The code of the project gets no credential of ours.
      env: { ...withoutSecrets(process.env), LANGSMITH_TRACING: 'false', LANGCHAIN_TRACING_V2: 'false' },
      stdio: ['pipe', 'pipe', 'pipe'],
    },
  )
  const ended = new Promise<void>(done => child.once('close', () => done()).once('error', () => done()))
  let last = ''
  for (const stream of [child.stdout!, child.stderr!])
    createInterface(stream).on('line', line => {
      if (/Error\b/.test(line) || (line.trim() !== '' && !/Error\b/.test(last))) last = line.trim()
    })
  async function close(): Promise<void> {
    // The end of the pipe ends the server.
    child.stdin!.end()
    await Promise.race([ended, sleep(STOP_MS, undefined, { ref: false })])
    rmSync(copy, { recursive: true, force: true })
  }
  try {
    await untilServed(port, ended, () => last)
    const lost = readdirSync(join(project, DATA)).filter(name => !existsSync(join(copy, DATA, name)))
    if (lost.length > 0)
      throw new UserError(
        `the development server of the project cannot read ${lost.join(', ')} in ${join(project, DATA)}: it was written by other versions, or holds objects of the project's own classes`,
      )
    return { ...serverSource(open(`http://127.0.0.1:${port}`), project), close }
  } catch (error) {
    await close()
    throw error
  }
}

/** The development server of the project's own versions. */
function commandOf(project: string): { file: string; reloads: boolean } {
  const isPython = readdirSync(join(project, DATA)).some(name => name.endsWith('.pckl'))
  const name = isPython ? 'langgraph' : 'langgraphjs'
  const active = process.env.VIRTUAL_ENV
  const own = isPython
    ? [join(project, '.venv/bin'), join(project, 'venv/bin'), ...(active ? [join(active, 'bin')] : [])]
    : [join(nearest(project, 'node_modules') ?? project, '.bin')]
  const folders = [...own, ...(process.env.PATH ?? '').split(delimiter)]
  const file = folders.map(folder => join(folder, name)).find(path => existsSync(path))
  if (file !== undefined) return { file, reloads: isPython }
  const install = isPython ? 'pip install "langgraph-cli[inmem]"' : 'npm install @langchain/langgraph-cli'
  throw new UserError(
    `only the development server reads ${join(project, DATA)}, and there is no "${name}": run \`${install}\` in the project's environment`,
  )
}

/** That of the folder or of one above it, as Node.js looks for packages. */
function nearest(folder: string, name: string): string | null {
  for (let at = folder; ; at = dirname(at)) {
    if (existsSync(join(at, name))) return join(at, name)
    if (at === dirname(at)) return null
  }
}

async function untilServed(port: number, ended: Promise<void>, last: () => string): Promise<void> {
  let isOver = false
  void ended.then(() => (isOver = true))
  for (const until = Date.now() + START_MS; Date.now() < until; await sleep(LOOK_MS)) {
    const answer = await fetch(`http://127.0.0.1:${port}/ok`).catch(() => null)
    if (answer?.ok) return
    if (isOver) throw new UserError(`the development server of the project does not start: ${last()}`)
  }
  throw new UserError(`the development server of the project did not start within ${START_MS / 1000} s: ${last()}`)
}
