// Graphs that harm their host. Each appends one line per node start (step, process id, monotonic time) to the file
// `log` of its input, so that a checker does not depend on the server's records.
import { appendFileSync, existsSync, readFileSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Annotation, END, entrypoint, START, StateGraph, task } from '@langchain/langgraph'

// A host that starts while this file exists takes 8 s longer.
if (existsSync(process.env.FAULTS_SLOW_START ?? '')) await sleep(8_000)

const append = (left, right) => left.concat(right)
const note = (log, step) => {
  if (log) appendFileSync(log, `${step} ${process.pid} ${process.hrtime.bigint()}\n`)
}

/** So long a blocking step counts, as a graph that computes does: the watchdog must get its answer from within the loop. */
const COUNTS_MS = 1_000
const nothing = new Int32Array(new SharedArrayBuffer(4))

/** Blocks the event loop. After COUNTS_MS it waits in short pieces and leaves the cores to other tests. */
function busy(ms) {
  const began = performance.now()
  while (performance.now() < began + Math.min(ms, COUNTS_MS));
  while (performance.now() < began + ms) Atomics.wait(nothing, 0, 0, 5)
}

function eat() {
  const kept = []
  for (;;) kept.push(new Array(10_000).fill(kept.length))
}

async function eatSlowly() {
  const kept = []
  for (;;) {
    for (let i = 0; i < 40; i++) kept.push(new Array(10_000).fill(kept.length))
    await new Promise(done => setImmediate(done))
  }
}

/** The harm that a step may do to the process, by name. `ms` is the duration. */
const harms = {
  none: () => {},
  wait: (_, ms) => sleep(ms),
  /** Until a checker releases the log (helpers/steps.ts). */
  async hold(log) {
    while (!existsSync(`${log}.released`)) await sleep(20)
  },
  signal: (_, ms, config) => sleep(ms, undefined, { signal: config.signal }),
  busy: (_, ms) => busy(ms),
  exit: () => process.exit(3),
  abort: () => process.abort(),
  oom: () => eat(),
  oomSlowly: () => eatSlowly(),
  async exception(_, ms) {
    setTimeout(() => {
      throw new RangeError('thrown from a timer')
    }, 1)
    await sleep(ms)
  },
  async rejection(_, ms) {
    void Promise.reject(new TypeError('nobody catches this'))
    await sleep(ms)
  },
  kill: () => process.kill(process.pid, 'SIGKILL'),
  /** Writes the bytes (hexadecimal) to the descriptor of the pipe to the supervisor. */
  async pipe(_, ms, __, { bytes }) {
    writeSync(3, Buffer.from(bytes, 'hex'))
    await sleep(ms)
  },
  spam(_, ms) {
    const line = `${'spam '.repeat(2_000)}\n`
    const until = performance.now() + ms
    while (performance.now() < until) process.stderr.write(line)
  },
  /** Logs this many megabytes as fast as it can. */
  flood(_, __, ___, { mb }) {
    const line = `${'flood '.repeat(2_000)}\n`
    for (let left = mb * 1e6; left > 0; left -= line.length) process.stderr.write(line)
  },
}

const State = Annotation.Root({
  log: Annotation(),
  steps: Annotation(),
  /** The step that harms; 0 = none. */
  at: Annotation(),
  harm: Annotation(),
  ms: Annotation(),
  /** The step harms in the first `times` attempts only. */
  times: Annotation(),
  /** The bytes that the harm `pipe` writes. */
  bytes: Annotation(),
  /** How much the harm `flood` logs. */
  mb: Annotation(),
  done: Annotation({ reducer: append, default: () => [] }),
  count: Annotation(),
  /** Characters that each event of `many` carries besides. */
  pad: Annotation(),
})

/** How often a step has begun, over all attempts. */
const seen = (log, step) =>
  log
    ? readFileSync(log, 'utf8')
        .split('\n')
        .filter(line => line.startsWith(`${step} `)).length
    : 0

function counting() {
  return new StateGraph(State)
    .addNode('step', async (state, config) => {
      const { log, at = 0, harm = 'none', ms = 60_000, times = 1_000, done } = state
      const step = done.length + 1
      note(log, step)
      if (step === at && seen(log, step) <= times) await harms[harm](log, ms, config, state)
      else await sleep(at === 0 ? (state.ms ?? 5) : 5)
      return { done: [step] }
    })
    .addEdge(START, 'step')
    .addConditionalEdges('step', ({ done, steps = 3 }) => (done.length < steps ? 'step' : END))
    .compile()
}

/** Counts its steps; one of them harms. */
export const poison = counting()
/** The same, for runs that cause no harm. */
export const steps = counting()
export const other = counting()

/** The same, in a subgraph. */
export const nested = new StateGraph(State).addNode('inner', counting()).addEdge(START, 'inner').compile()

/** The same, as tasks of one function. */
const taskStep = task('step', async ({ log, ms = 5 }, step) => {
  note(log, step)
  await sleep(ms)
  return step
})
export const tasks = entrypoint('tasks', async input => {
  const done = []
  while (done.length < input.steps) done.push(await taskStep(input, done.length + 1))
  return { done }
})

/** One node that waits for `ms`. */
export const slow = new StateGraph(State)
  .addNode('node', async ({ log, ms = 1_000 }) => {
    note(log, 1)
    await sleep(ms)
    return { done: [1] }
  })
  .addEdge(START, 'node')
  .addEdge('node', END)
  .compile()

/** Many events, then the end. */
export const many = new StateGraph(State)
  .addNode('node', async ({ log, count = 100, pad, at = 0, harm = 'none', times = 1_000, ms = 0 }, config) => {
    note(log, 1)
    for (let i = 1; i <= count; i++) {
      config.writer(pad === undefined ? { i } : { i, pad: 'x'.repeat(pad) })
      if (i % 20 === 0) await sleep(2)
      if (i === at && seen(log, 1) <= times) await harms[harm](log, ms, config)
    }
    return { done: [1] }
  })
  .addEdge(START, 'node')
  .addEdge('node', END)
  .compile()

/** Logs `n` when it begins and `-n` when it has ended, also when it was stopped. */
export const span = new StateGraph(
  Annotation.Root({ log: Annotation(), n: Annotation(), ms: Annotation(), last: Annotation() }),
)
  .addNode('node', async ({ log, n, ms = 5 }, { signal }) => {
    note(log, n)
    try {
      await sleep(ms, undefined, { signal })
    } finally {
      note(log, -n)
    }
    return { last: n }
  })
  .addEdge(START, 'node')
  .addEdge('node', END)
  .compile()
