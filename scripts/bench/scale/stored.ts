/** Bytes that rows take in the embedded store. */
import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { root } from '../../../cli/root.js'
import { requestText } from '../http.js'
import type { Bench, Scenario } from '../scenario.js'
import { askJson, createThread } from '../scenarios-resources.js'
import { check } from '../wrong.js'
import { fill } from './compare.js'

const run = promisify(execFile)

export const STORED: readonly Scenario[] = [
  {
    name: 'stored-bytes',
    what: 'bytes of the embedded store for a thread with metadata; also a run of one step, a further checkpoint, an item',
    unit: ' B',
    better: 'less',
    per: 'thread',
    starts: true,
    once: true,
    run: storedBytes,
  },
]

const STEPS = 21

/** Each kind of row is added to the same server; a backup has the committed rows without free pages. */
async function storedBytes({ kind, quick }: Bench) {
  const server = await kind!.start()
  const many = quick ? 200 : 5_000
  check(server.data !== null, 'the server has no data folder on this machine')
  try {
    const threads: string[] = []
    const grown = async (count: number, one: Parameters<typeof fill>[2]) => {
      const before = await sizeOf(server.data!)
      await fill(server.port, count, one)
      return ((await sizeOf(server.data!)) - before) / count
    }
    const thread = await grown(many, async (connection, i) => {
      threads[i] = (await createThread(connection, i)).thread_id
    })
    const runOf = (count: number) => (connection: Parameters<typeof createThread>[0], i: number) => {
      const body = { assistant_id: 'steps', input: { count } }
      return askJson(connection, requestText('POST', `/threads/${threads[i]}/runs/wait`, body))
    }
    const first = await grown(Math.round(many / 5), runOf(1))
    // The other threads, so that these begin at their first step, too.
    const longer = await grown(Math.round(many / 25), (connection, i) => runOf(STEPS)(connection, many - 1 - i))
    const item = await grown(many, async (connection, i) => {
      const body = { namespace: ['bench'], key: `k${i}`, value: { n: i, text: 'x'.repeat(200) } }
      const { status } = await connection.ask(requestText('PUT', '/store/items', body))
      check(status === 204, `HTTP ${status} for an item`)
    })
    const also = { run_of_one_step: first, further_checkpoint: (longer - first) / (STEPS - 1), item_of_200: item }
    return { value: thread, operations: many, also }
  } finally {
    await server.stop()
  }
}

/** Bytes of a copy of the store. */
async function sizeOf(data: string): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'weft-stored-'))
  try {
    const target = join(folder, 'copy')
    await run(process.execPath, [join(root, 'dist/cli/weft.js'), 'backup', target, '--data', data])
    return readdirSync(target).reduce((sum, file) => sum + statSync(join(target, file)).size, 0)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
