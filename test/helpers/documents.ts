/**
 * Code blocks of documents, executed as a reader would: in one folder, block after block. The info string of a block
 * says what it is: `ts title="agent.ts"` is a file, `sh` a command, `sh server` a server of Weft that takes the place of the
 * one before it, `sh background` another program that goes on. A block `text` after a command is what it must print; `…` stands
 * for any text.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { freePort } from '../../cli/ports.js'
import { root } from '../../cli/root.js'
import { allGone, below } from './cluster.js'

export interface Block {
  page: string
  line: number
  language: string
  /** The path of a file, relative to the folder. */
  title: string | null
  /** '', 'server' or 'background'. */
  kind: string
  text: string
}

/** The fenced blocks of a page below the root, in order. */
export function blocksOf(page: string): Block[] {
  const text = readFileSync(join(root, page), 'utf8')
  return [...text.matchAll(/^```(\w*)(?: (.*))?\n([\s\S]*?)^```$/gm)].map(
    ({ 1: language = '', 2: info = '', 3: body = '', index }) => ({
      page,
      line: text.slice(0, index).split('\n').length,
      language,
      title: /title="([^"]+)"/.exec(info)?.[1] ?? null,
      kind: /\b(server|background)\b/.exec(info)?.[1] ?? '',
      text: body.trimEnd(),
    }),
  )
}

export interface Reader {
  folder: string
  /** Where the server and the page of the reader are: in the place of 127.0.0.1:2024 and 127.0.0.1:8000. */
  url: string
  pageUrl: string
  /** Executes a block; `expected` is the text after it. Rejects with what went wrong. */
  follow(block: Block, expected?: string): Promise<void>
  /** The values that a command has printed and the reader puts into a later one: RUN_ID, THREAD_ID, KEY. */
  seen: { readonly [name: string]: string }
  close(): Promise<void>
}

/** The line of a server that can be used, and those of other programs. */
const SERVES = /its API described at/
const WATCHES = /watching .* for changes/
const STARTED = /\bstarted\b|Local:/
const RELOADED = /reloaded in \d+ ms/g
const START_MS = 90_000
const COMMAND_MS = 60_000
/** Length of the output in the message of a failure. */
const SHOWN = 2_000

/** `python`: an interpreter with langgraph, which becomes python3 and WEFT_PYTHON. */
export async function openReader(python: string | null = null): Promise<Reader> {
  const place = mkdtempSync(join(tmpdir(), 'weft-reader-'))
  const folder = join(place, 'work')
  mkdirSync(join(folder, 'bin'), { recursive: true })
  const weft = join(root, 'dist/cli/weft.js')
  writeFileSync(join(folder, 'bin/weft'), `#!/bin/sh\nexec "${process.execPath}" "${weft}" "$@"\n`, { mode: 0o755 })
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  // Front ends, which the product does not depend on.
  symlinkSync(join(root, 'test/sdk/node_modules'), join(place, 'node_modules'))
  const port = await freePort()
  const pagePort = await freePort()
  const path = [
    join(folder, 'bin'),
    python === null ? '' : dirname(python),
    dirname(process.execPath),
    process.env.PATH,
  ]
  const env = {
    ...process.env,
    PATH: path.filter(Boolean).join(delimiter),
    PORT: `${port}`,
    WEFT_URL: `http://127.0.0.1:${port}`,
    NO_COLOR: '1',
    NODE_OPTIONS: '',
    ...(python === null ? {} : { WEFT_PYTHON: python }),
  }
  const seen: { [name: string]: string } = {}
  const running: { child: ChildProcess; kind: string; output: () => string }[] = []

  const local = (text: string) =>
    text.replaceAll('127.0.0.1:2024', `127.0.0.1:${port}`).replaceAll('127.0.0.1:8000', `127.0.0.1:${pagePort}`)

  async function start(command: string, kind: string): Promise<void> {
    if (kind === 'server') await stop('server')
    // The program itself takes the signal that ends it.
    const child = spawn('bash', ['-c', command.replace(/\b(weft|npx) /, 'exec $1 ')], {
      cwd: folder,
      env,
      detached: true,
    })
    let output = ''
    for (const stream of [child.stdout!, child.stderr!]) stream.on('data', part => (output += part))
    running.push({ child, kind, output: () => output })
    const ready = kind === 'background' ? [STARTED] : [SERVES, ...(command.includes('weft dev') ? [WATCHES] : [])]
    await until(
      child,
      () => ready.every(pattern => pattern.test(output)),
      `${command} is not ready`,
      () => output,
    )
  }

  async function stop(kind?: string): Promise<void> {
    const ending = running.filter(one => kind === undefined || one.kind === kind)
    for (const one of ending.reverse()) {
      running.splice(running.indexOf(one), 1)
      const { child } = one
      const all = below(child.pid!)
      if (child.exitCode === null) {
        const ended = new Promise(done => child.once('exit', done))
        process.kill(-child.pid!, 'SIGTERM')
        await ended
      }
      await allGone(all)
    }
  }

  async function run(command: string): Promise<string> {
    for (const [name, value] of Object.entries(seen))
      command = command.replaceAll(new RegExp(`\\b${name}\\b`, 'g'), value)
    const child = spawn('bash', ['-ec', command], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    let errors = ''
    child.stdout.on('data', part => (output += part))
    child.stderr.on('data', part => (errors += part))
    const timer = setTimeout(() => child.kill('SIGKILL'), COMMAND_MS)
    const code = await new Promise(done => child.once('close', done))
    clearTimeout(timer)
    if (code !== 0)
      throw new Error(
        `${command} ended with ${code}:\n${output}\n${errors}\n${running.map(one => one.output()).join('\n')}`,
      )
    for (const [name, pattern] of Object.entries(SEEN)) {
      const value = pattern.exec(output)?.[1]
      if (value !== undefined) seen[name] = value
    }
    return output
  }

  /** `weft dev` serves a changed file of the application. */
  async function write(title: string, text: string): Promise<void> {
    const file = join(folder, title)
    const dev = running.find(({ kind, output }) => kind === 'server' && WATCHES.test(output()))
    const watched =
      dev !== undefined && title.includes('/') && existsSync(join(folder, dirname(title), 'langgraph.json'))
    const before = [...(dev?.output() ?? '').matchAll(RELOADED)].length
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, local(text))
    if (!watched) return
    const { child, output } = dev
    await until(child, () => [...output().matchAll(RELOADED)].length > before, `${title} was not reloaded`, output)
  }

  return {
    folder,
    url: env.WEFT_URL,
    pageUrl: `http://127.0.0.1:${pagePort}`,
    seen,
    async follow({ language, title, kind, text }, expected) {
      if (title !== null) return write(title, `${text}\n`)
      if (language === 'json') return void JSON.parse(text)
      if (kind !== '') return start(local(text), kind)
      const commands: { [language: string]: string } = {
        sh: local(text),
        js: 'node snippet.mjs',
        python: 'python3 snippet.py',
      }
      const command = commands[language]
      if (command === undefined) throw new Error(`nothing is known about a block ${language || 'without a language'}`)
      if (language !== 'sh') await write(command.split(' ')[1]!, text)
      const output = await run(command)
      if (expected !== undefined && !patternOf(expected).test(output.trim()))
        throw new Error(`${command} printed\n${output.slice(0, SHOWN)}\ninstead of\n${expected}`)
    },
    async close() {
      await stop()
      rmSync(place, { recursive: true, force: true })
    },
  }
}

const SEEN: { readonly [name: string]: RegExp } = {
  RUN_ID: /"run_id":"([0-9a-f-]{36})"/,
  THREAD_ID: /"thread_id":"([0-9a-f-]{36})"/,
  KEY: /^(weft_\S+)$/m,
}

const patternOf = (expected: string): RegExp =>
  new RegExp(
    `^${expected
      .split('…')
      .map(part => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'))
      .join('[\\s\\S]*?')}$`,
  )

/** Checks after each piece of output; rejects with the output when the program ends or after START_MS. */
function until(child: ChildProcess, isDone: () => boolean, failure: string, output: () => string): Promise<void> {
  return new Promise((resolve, reject) => {
    const streams = [child.stdout!, child.stderr!]
    const end = (error?: Error) => {
      clearTimeout(timer)
      for (const stream of streams) stream.off('data', check)
      child.off('close', ended)
      if (error === undefined) resolve()
      else reject(error)
    }
    const check = () => isDone() && end()
    const ended = () => end(new Error(`${failure}:\n${output()}`))
    const timer = setTimeout(ended, START_MS)
    for (const stream of streams) stream.on('data', check)
    child.once('close', ended)
    check()
  })
}
