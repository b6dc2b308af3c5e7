/**
 * A database of langgraph-checkpoint-sqlite or langgraph-checkpoint-postgres as the source of an import. A child process
 * in Python reads it with the package that wrote it (workers/host-python/weft_host/imports/checkpoints.py).
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { withoutSecrets } from '../../../../schemas/config.js'
import { parseJson } from '../../../../schemas/exact.js'
import type { ThreadState } from '../../../../schemas/threads.js'
import { findPython } from '../../../../workers/child/python.js'
import { readSettings } from '../../../read-settings.js'
import { root } from '../../../root.js'
import { UserError } from '../../../user-error.js'
import { pages, Refused } from '../../client.js'
import { type Item, PAGE, type Source, type SourceThread } from './source.js'

const PACKAGES = {
  sqlite: ['langgraph-checkpoint-sqlite'],
  postgres: ['langgraph-checkpoint-postgres', 'psycopg[binary]'],
}
const TABLES = { threads: 'checkpoints', items: 'store', assistants: null, crons: null } as const

export const isPostgres = (text: string): boolean => /^postgres(ql)?:\/\//.test(text)

/** `graph`: of threads whose checkpoints name none. */
export async function databaseSource(given: string, graph: string | undefined): Promise<Source> {
  const kind = isPostgres(given) ? 'postgres' : 'sqlite'
  const place = kind === 'postgres' ? given : resolve(given)
  const reader = await openReader(await pythonWith(PACKAGES[kind]), place)
  const page = <T>(call: 'threads' | 'items') =>
    pages<T>(PAGE, offset => reader.ask<T[]>({ call, offset, limit: PAGE }))
  return {
    name: kind === 'postgres' ? withoutPassword(given) : place,
    async count(rows) {
      const table = TABLES[rows]
      return table === null ? 0 : reader.ask<number>({ call: 'count', table })
    },
    async *assistants() {},
    versions: async () => [],
    async *threads() {
      for await (const rows of page<SourceThread>('threads'))
        yield rows.map(row => ({ ...row, metadata: { ...(graph ? { graph_id: graph } : {}), ...row.metadata } }))
    },
    async history(thread_id, most) {
      const states: ThreadState[] = []
      const classes = new Set<string>()
      for (;;) {
        const limit = Math.min(PAGE, most - states.length)
        const before = states.at(-1)?.checkpoint?.checkpoint_id ?? null
        const read = await reader.ask<{ states: ThreadState[]; classes: string[] }>({
          call: 'history',
          thread_id,
          before,
          limit,
        })
        states.push(...read.states)
        for (const name of read.classes) classes.add(name)
        if (read.states.length < limit || states.length >= most) break
      }
      if (classes.size === 0) return { states }
      return { states, note: `objects were read as their members: ${[...classes].sort().join(', ')}` }
    },
    items: () => page<Item>('items'),
    async *crons() {},
    close: reader.close,
  }
}

/** Weft makes a separate environment in its cache folder and does not change the application's environment. */
async function pythonWith(dependencies: string[]): Promise<string> {
  const { VIRTUAL_ENV: _, ...env } = withoutSecrets(process.env)
  const folder = join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'weft', 'import')
  await mkdir(folder, { recursive: true })
  const description = { path: join(folder, 'langgraph.json'), folder, given: { dependencies } }
  const fetchesUv = readSettings({}).fetch_uv
  const log = (line: string) => {
    if (/^(making|getting) /.test(line)) process.stderr.write(`${line}\n`)
  }
  try {
    return (await findPython({ description, given: '', fetchesUv, env, user: null, log })).file
  } catch (error) {
    throw new UserError(`the database is read with Python: ${(error as Error).message}`)
  }
}

interface Reader {
  ask<T>(call: object): Promise<T>
  close(): Promise<void>
}

/** One request at a time is in the pipe; answers come in the order of the requests. */
async function openReader(python: string, place: string): Promise<Reader> {
  const program = join(root, 'workers/host-python/start.py')
  // Strict: only classes that the library lists as safe are built from the contents.
  const env = { ...withoutSecrets(process.env), LANGGRAPH_STRICT_MSGPACK: 'true' }
  const child: ChildProcess = spawn(python, [program, 'checkpoints'], { env, cwd: '/', stdio: 'pipe' })
  let last = ''
  createInterface(child.stderr!).on('line', line => {
    if (line.trim() !== '') last = line.trim()
  })
  const answers = createInterface(child.stdout!)[Symbol.asyncIterator]()
  // If the child has ended, the next read reports it.
  child.stdin!.on('error', () => {})
  child.stdin!.write(`${place}\n`)
  let order: Promise<unknown> = Promise.resolve()
  async function exchange<T>(call: object): Promise<T> {
    child.stdin!.write(`${JSON.stringify(call)}\n`)
    const { value, done } = await answers.next()
    if (done) throw new UserError(`the database cannot be read: ${last || 'its reader has ended'}`)
    const { answer, error } = parseJson(value) as { answer?: T; error?: string }
    if (error !== undefined) throw new Refused(`the database: ${error}`, 422)
    return answer as T
  }
  const ended = once(child, 'close')
  return {
    ask<T>(call: object) {
      const turn = order.then(() => exchange<T>(call))
      order = turn.catch(() => {})
      return turn
    },
    async close() {
      child.stdin!.end()
      await ended
    },
  }
}

function withoutPassword(text: string): string {
  const url = new URL(text)
  url.password = ''
  url.search = ''
  return url.href
}
