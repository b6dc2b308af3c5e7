/**
 * The memory of a process. On SIGUSR2 it writes what it holds after a garbage collection to the folder WEFT_TEST_HEAP: a heap snapshot with
 * whole strings, and the bytes of all buffers. Loaded with `--import` before its program, so that the program has no code
 * for it.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { Session } from 'node:inspector'
import { join } from 'node:path'
import { setFlagsFromString, writeHeapSnapshot } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Proc } from './cluster.js'
import { until } from './until.js'

const DUMP_MS = 60_000

/** The environment of a process whose memory can be read, through files of this folder. */
export const heapEnv = (folder: string) => ({
  NODE_OPTIONS: `--import ${import.meta.url}`,
  WEFT_TEST_HEAP: folder,
})

/** Its heap snapshot and the bytes of its buffers, once. */
export async function heapOf(proc: Proc, folder: string): Promise<{ snapshot: Buffer; buffers: Buffer }> {
  proc.kill('SIGUSR2')
  await until(() => existsSync(join(folder, 'buffers')), DUMP_MS)
  const read = (name: string) => readFileSync(join(folder, name))
  return { snapshot: read('heap.heapsnapshot'), buffers: read('buffers') }
}

const folder = process.env.WEFT_TEST_HEAP
if (folder !== undefined) process.on('SIGUSR2', () => dump(folder))

function dump(to: string): void {
  setFlagsFromString('--expose-gc')
  setFlagsFromString('--heap-snapshot-string-limit=100000000')
  const collect = runInNewContext('gc') as () => void
  collect()
  writeHeapSnapshot(join(to, 'heap.heapsnapshot'))
  writeFileSync(join(to, 'buffers.part'), Buffer.concat(buffers().map(one => new Uint8Array(one))))
  renameSync(join(to, 'buffers.part'), join(to, 'buffers'))
}

/** All buffers that are reachable. */
function buffers(): ArrayBuffer[] {
  const session = new Session()
  session.connect()
  const ask = (method: string, params: object): { [name: string]: { objectId: string } } => {
    let found: object | undefined
    session.post(method, params, (error, result) => {
      if (error !== null) throw error
      found = result as object
    })
    return found as never
  }
  const holder = globalThis as { weftTestBuffers?: ArrayBuffer[] }
  const prototype = ask('Runtime.evaluate', { expression: 'ArrayBuffer.prototype' }).result!
  const all = ask('Runtime.queryObjects', { prototypeObjectId: prototype.objectId }).objects!
  const functionDeclaration = 'function () { globalThis.weftTestBuffers = this }'
  ask('Runtime.callFunctionOn', { objectId: all.objectId, functionDeclaration })
  session.disconnect()
  const found = holder.weftTestBuffers!
  delete holder.weftTestBuffers
  return found
}
