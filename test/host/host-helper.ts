/** Starts a real host and exchanges frames with it, as a supervisor does; a map of rows replaces the store. */
import { type ChildProcess, spawn } from 'node:child_process'
import type { Duplex } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { CheckpointQuery } from '../../schemas/checkpoints.js'
import type { Call, FinishHead, Hello, StartHead } from '../../schemas/host.js'
import { cutter, pack, unpack } from '../../schemas/packed.js'
import type { RunKwargs } from '../../schemas/runs.js'
import type { Tuple } from '../../store/rows/checkpoints.js'
import type { Program } from '../../workers/child/start.js'
import { LARGE_FRAME } from '../../workers/host/guards/frame-lanes.js'
import { ASK, FROM_HOST, type Frame, frameWriter, monotonicMs, readFrames, TO_HOST } from '../../workers/pipe.js'
import { packTuples, rowsOf } from '../../workers/resources/rows/checkpoint.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))
export const appOf = (name: string): string => `${root}test/apps/${name}/langgraph.json`
export const exampleApp = `${root}examples/chat/langgraph.json`

export interface Event {
  id: number
  event: string
  data: unknown
}

export interface Ended extends FinishHead {
  values: unknown
  rest: { [key: string]: never } | null
  save: Uint8Array
  events: Event[]
  frames: { id: number; count: number; bytes: number }[]
  /** Checkpoints that the host has reported, with the last event before each. */
  reported: { checkpoint: string; after: number }[]
}

export const kwargsOf = (kwargs: Partial<RunKwargs> = {}): RunKwargs => ({
  input: null,
  command: null,
  config: {},
  context: null,
  stream_mode: ['values'],
  stream_subgraphs: false,
  resumable: false,
  durability: 'async',
  temporary: true,
  feedback_keys: null,
  interrupt_before: null,
  interrupt_after: null,
  webhook: null,
  ...kwargs,
})

/** Checkpoints of all threads, in the form of the store's answers. */
export function fakeStore() {
  const checkpoints: (ReturnType<typeof rowsOf>['checkpoints'][number] & { thread: string })[] = []
  const blobs = new Map<string, ReturnType<typeof rowsOf>['blobs'][number]>()
  const writes = new Map<string, ReturnType<typeof rowsOf>['writes'][number]>()
  const tuple = (row: (typeof checkpoints)[number]): Tuple => ({
    ...row,
    blobs: Object.entries(row.refs).flatMap(([channel, version]) => {
      const blob = blobs.get(JSON.stringify([row.thread, row.ns, channel, version]))
      return blob === undefined ? [] : [{ channel, type: blob.type, value: blob.value }]
    }),
    writes: [...writes]
      .filter(([key]) => key.startsWith(JSON.stringify([row.thread, row.ns, row.id]).slice(0, -1)))
      .map(([, write]) => write)
      .sort((a, b) => (a.task_id === b.task_id ? a.idx - b.idx : a.task_id < b.task_id ? -1 : 1)),
  })
  const list = ({ thread_id, ns, before, limit }: CheckpointQuery) =>
    checkpoints
      .filter(row => row.thread === thread_id && (ns === undefined || row.ns === ns) && (!before || row.id < before))
      .sort((a, b) => b.seq - a.seq)
      .slice(0, limit)
      .map(tuple)
  return {
    saves: 0,
    checkpoints,
    save(thread: string, body: Uint8Array) {
      this.saves++
      const rows = rowsOf(Uint8Array.from(body))
      for (const row of rows.checkpoints) {
        const known = checkpoints.findIndex(each => each.thread === thread && each.ns === row.ns && each.id === row.id)
        if (known >= 0) checkpoints.splice(known, 1)
        checkpoints.push({ ...row, thread })
      }
      for (const row of rows.blobs) {
        const key = JSON.stringify([thread, row.ns, row.channel, row.version])
        if (!blobs.has(key)) blobs.set(key, row)
      }
      for (const row of rows.writes) {
        const key = JSON.stringify([thread, row.ns, row.checkpoint_id, row.task_id, row.idx])
        if (row.idx < 0 || !writes.has(key)) writes.set(key, row)
      }
    },
    get({ thread_id, ns = '', checkpoint_id }: CheckpointQuery): Tuple[] {
      const found = checkpoints
        .filter(row => row.thread === thread_id && row.ns === ns && (!checkpoint_id || row.id === checkpoint_id))
        .sort((a, b) => b.seq - a.seq)[0]
      return found === undefined ? [] : [tuple(found)]
    },
    list,
    /** The contents of a start frame. */
    newest(thread_id: string): Uint8Array {
      const found = this.get({ thread_id })
      return found.length === 0 ? new Uint8Array(0) : packTuples(found)
    },
  }
}

const FOREVER_MS = 86_400_000
/** A large save is answered after this time. */
const LARGE_SAVE_MS = 50

export interface RunSpec {
  graph_id: string
  thread_id?: string
  run_id?: string
  attempt?: number
  first_id?: number
  events?: boolean
  /** Time of the last confirmation of the lease (monotonicMs); if absent, the lease never expires. */
  confirmed_at?: number
  metadata?: StartHead['metadata']
  kwargs?: Partial<RunKwargs>
}

/** A host for JavaScript, unless another program is given. */
const nodeHost = (flags: string[]): Program => ({
  command: process.execPath,
  args: [...flags, fileURLToPath(new URL('../../programs/host.js', import.meta.url))],
  env: {},
})

/** Spawns a host; `run` resolves with everything that the run sent. */
export async function startHost(
  app: string,
  env: NodeJS.ProcessEnv = {},
  flags: string[] = [],
  { command, args, env: own }: Program = nodeHost(flags),
) {
  const child: ChildProcess = spawn(command, args, {
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    env: { ...process.env, ...env, ...own, WEFT_APP: app },
  })
  const pipe = child.stdio[3] as Duplex
  const write = frameWriter(pipe)
  const store = fakeStore()
  const threads = new Map<number, string>()
  const running = new Map<number, (ended: Ended) => void>()
  const chunks = new Map<number, Frame[]>()
  const reported = new Map<number, Ended['reported']>()
  const listeners = new Map<number, (frame: Frame) => void>()
  const calls = new Map<number, (frame: Frame) => void>()
  const output = { stderr: '', stdout: '' }
  /** Large saves without an answer: now, and the most there were. */
  const largeSaves = { now: 0, most: 0 }
  let slots = 0
  let claims = 0
  let refuse = 0
  let pong: ((late: number) => void) | null = null
  let hello: (hello: Hello) => void = () => {}
  const greeted = new Promise<Hello>(resolve => {
    hello = resolve
  })
  child.stderr!.on('data', data => {
    output.stderr = (output.stderr + data).replaceAll(MARK, '')
  })
  child.stdout!.on('data', data => {
    output.stdout = (output.stdout + data).replaceAll(MARK, '')
  })
  pipe.on('error', () => {})
  readFrames(pipe, frame => {
    const { kind, slot, id, flags, body } = frame
    if (kind === FROM_HOST.hello) {
      hello(JSON.parse(Buffer.from(body).toString()))
    } else if (kind === FROM_HOST.chunk) {
      chunks.get(slot)?.push({ ...frame, body: Uint8Array.from(body) })
      listeners.get(slot)?.(frame)
    } else if (kind === FROM_HOST.checkpoint) {
      reported.get(slot)?.push({ checkpoint: Buffer.from(body).toString(), after: id })
    } else if (kind === FROM_HOST.ask) {
      if (refuse > 0) return write({ kind: TO_HOST.answer, flags: refuse, slot, id })
      const thread = threads.get(slot)!
      if (flags === ASK.save) {
        store.save(thread, body)
        if (body.length < LARGE_FRAME) return write({ kind: TO_HOST.answer, slot, id })
        largeSaves.most = Math.max(largeSaves.most, ++largeSaves.now)
        return setTimeout(() => {
          largeSaves.now--
          write({ kind: TO_HOST.answer, slot, id })
        }, LARGE_SAVE_MS)
      }
      const query = { ...JSON.parse(Buffer.from(body).toString()), thread_id: thread } as CheckpointQuery
      const found = flags === ASK.get ? store.get(query) : store.list(query)
      write({ kind: TO_HOST.answer, slot, id, body: packTuples(found) })
    } else if (kind === FROM_HOST.finish)
      running.get(slot)?.({ ...endedOf(chunks.get(slot)!, body), reported: reported.get(slot) ?? [] })
    else if (kind === FROM_HOST.pong) pong?.(frame.count)
    else if (kind === FROM_HOST.called) calls.get(id)?.(frame)
  })
  return {
    child,
    pipe,
    store,
    largeSaves,
    output,
    hello: greeted,
    refuse(flags: number) {
      refuse = flags
    },
    start(spec: RunSpec, onChunk?: (frame: Frame) => void) {
      const slot = ++slots
      const thread_id = spec.thread_id ?? `thread-${slot}`
      const run_id = spec.run_id ?? `run-${slot}`
      threads.set(slot, thread_id)
      chunks.set(slot, [])
      reported.set(slot, [])
      if (onChunk !== undefined) listeners.set(slot, onChunk)
      const head: StartHead = {
        run_id,
        thread_id,
        graph_id: spec.graph_id,
        attempt: spec.attempt ?? 1,
        first_id: spec.first_id ?? 0,
        first_seq: ++claims * 2 ** 24,
        metadata: spec.metadata ?? {},
        kwargs: kwargsOf(spec.kwargs),
        want_values: false,
        events: spec.events ?? false,
      }
      const ended = new Promise<Ended>(resolve =>
        running.set(slot, ended => {
          if (ended.save.length > 0) store.save(thread_id, ended.save)
          chunks.delete(slot)
          reported.delete(slot)
          resolve(ended)
        }),
      )
      const id = spec.confirmed_at ?? monotonicMs() + FOREVER_MS
      write({ kind: TO_HOST.start, slot, id, body: pack(head, [store.newest(thread_id)]) })
      return { slot, ended, cancel: () => write({ kind: TO_HOST.cancel, slot }) }
    },
    run(spec: RunSpec): Promise<Ended> {
      return this.start(spec).ended
    },
    /** Starts a run with a body of our own. */
    startRaw(body: Uint8Array): Promise<Ended> {
      const slot = ++slots
      chunks.set(slot, [])
      write({ kind: TO_HOST.start, slot, id: monotonicMs() + FOREVER_MS, body })
      return new Promise(resolve => running.set(slot, resolve))
    },
    /** The same for a call; resolves to the flags of its answer. */
    callRaw(body: Uint8Array): Promise<number> {
      const id = ++slots
      write({ kind: TO_HOST.call, slot: id, id, body })
      return new Promise(resolve => calls.set(id, ({ flags }) => resolve(flags)))
    },
    pause: (slot: number) => write({ kind: TO_HOST.pause, slot }),
    resume: (slot: number) => write({ kind: TO_HOST.resume, slot }),
    confirm: (slot: number, id: number) => write({ kind: TO_HOST.confirm, slot, id }),
    ping: () =>
      new Promise<number>(resolve => {
        pong = resolve
        write({ kind: TO_HOST.ping })
      }),
    call(call: Call): Promise<{ flags: number; json: never }> {
      const id = ++slots
      threads.set(id, call.thread_id)
      return new Promise(resolve => {
        calls.set(id, ({ flags, body }) => resolve({ flags, json: JSON.parse(Buffer.from(body).toString()) as never }))
        write({ kind: TO_HOST.call, slot: id, id, body: Buffer.from(JSON.stringify(call)) })
      })
    },
    async stop() {
      const closed = new Promise(resolve => child.once('exit', resolve))
      pipe.end()
      await closed
    },
  }
}

function endedOf(frames: Frame[], body: Uint8Array): Omit<Ended, 'reported'> {
  const { head, rest } = unpack<FinishHead>(body)
  const cut = cutter(rest)
  const values = Buffer.from(cut(head.values_size)).toString()
  const state = Buffer.from(cut(head.rest_size)).toString()
  const save = Uint8Array.from(cut(head.save_size))
  return {
    ...head,
    values: values === '' ? undefined : JSON.parse(values),
    rest: state === '' ? null : JSON.parse(`{${state}`),
    save,
    events: frames.filter(frame => frame.flags === 0).flatMap(frame => eventsIn(Buffer.from(frame.body).toString())),
    frames: frames.map(({ id, count, body }) => ({ id, count, bytes: body.length })),
  }
}

const eventsIn = (text: string): Event[] =>
  text
    .split('\n\n')
    .slice(0, -1)
    .map(part => {
      const [id, event, data, more] = part.split('\n')
      if (more !== undefined) throw new Error(`an event of more than three lines: ${part}`)
      return { id: Number(id!.slice(4)), event: event!.slice(7), data: JSON.parse(data!.slice(6)) }
    })

/** A host marks its output with the slot of the run that writes it; supervisors take the marks out. */
const MARK = /\u001b_w\d+\u001b\\/g
