/**
 * The Weft behind a handler: one that runs elsewhere, or a child process that this process starts once, however often a
 * framework loads its modules again, and that ends with it.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { HandlerOptions, Weft } from './types.js'

const COMMAND = fileURLToPath(new URL('../cli/weft.js', import.meta.url))
/** A request waits so long for the start. Packages of Python that are installed first may take longer. */
const START_MS = 60_000
/** All requests come from one address. */
const ONE_ADDRESS = { WEFT_STREAMS_PER_ADDRESS: '0' }

interface Started {
  url: Promise<string>
  /** The same, when it serves. */
  found: string | null
  child: ChildProcess
}

/** By application and data folder. Global: a framework may load this file several times. */
const started: Map<string, Started> = ((globalThis as { [key: symbol]: unknown })[Symbol.for('weft-server/handler')] ??=
  new Map()) as Map<string, Started>

export function openServer({ url, ...options }: HandlerOptions): Weft {
  if (url !== undefined) {
    if (!/^https?:$/.test(new URL(url).protocol)) throw new TypeError(`url: expected http:// or https://, got "${url}"`)
    const found = url.replace(/\/+$/, '')
    return { ready: async () => found, close: async () => {} }
  }
  const app = resolve(options.app ?? '.')
  const data = resolve(options.data ?? '.weft')
  const key = `${app}\n${data}`
  return {
    async ready() {
      if (!started.has(key)) {
        const one = start(app, data, options)
        started.set(key, one)
        for (const end of ['exit', 'error']) one.child.once(end, () => started.delete(key))
      }
      const { url, found } = started.get(key)!
      if (found !== null) return found
      const late = new AbortController()
      const limit = sleep(START_MS, undefined, { signal: late.signal }).then(() => {
        throw new Error(`Weft has not started within ${START_MS / 1000} s, and is still waited for`)
      })
      limit.catch(() => {})
      return Promise.race([url, limit]).finally(() => late.abort())
    },
    async close() {
      const child = started.get(key)?.child
      if (child === undefined) return
      const ended = once(child, 'exit')
      child.ref()
      child.stdin!.end()
      await ended
    },
  }
}

function start(
  app: string,
  data: string,
  { dev = process.env.NODE_ENV !== 'production', env }: HandlerOptions,
): Started {
  const flags = ['--app', app, '--data', data, '--host', '127.0.0.1', '--port', '0', '--json', '--tied']
  // In a process group of its own: Ctrl-C in a terminal reaches this process only, whose end it sees.
  const child = spawn(process.execPath, [COMMAND, dev ? 'dev' : 'start', ...flags], {
    env: { ...ONE_ADDRESS, ...process.env, ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
    detached: true,
  })
  const url = new Promise<string>((done, failed) => {
    createInterface(child.stdout!).on('line', line => done((JSON.parse(line) as { url: string }).url))
    child.once('error', failed)
    child.once('exit', code => failed(new Error(`Weft has ended with exit code ${code}; it has printed why`)))
  })
  const one: Started = { url, found: null, child }
  url.then(
    found => {
      one.found = found
    },
    () => {},
  )
  child.stdin!.on('error', () => {})
  // This process may end while it runs.
  child.unref()
  for (const pipe of [child.stdin, child.stdout]) (pipe as unknown as { unref(): void }).unref()
  return one
}
