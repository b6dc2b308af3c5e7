// A graph that a checker can follow without the records of the server: it appends a line when a node begins and when it
// ends (mark, run, thread, attempt, step, process id, monotonic nanoseconds, key of the input) to the file `file` of its
// input, which is opened with O_APPEND, so that lines of several processes stay whole.
import { appendFileSync, existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Annotation, END, START, StateGraph } from '@langchain/langgraph'

const State = Annotation.Root({
  file: Annotation(),
  key: Annotation(),
  steps: Annotation(),
  /** Duration of a step. */
  ms: Annotation(),
  /**
   * `wait`: without the signal; `signal`: with it; `busy`: blocks the event loop; `none`: takes no time;
   * `throw`: the last step throws.
   */
  how: Annotation(),
  /** This step waits until the file `file` with `.released` exists. */
  hold: Annotation(),
  /** Custom events of each step, spread over its duration. */
  events: Annotation(),
  /** An input with null begins anew on a thread that had runs. */
  done: Annotation({ reducer: (left, right) => (right === null ? [] : left.concat(right)), default: () => [] }),
})

function busy(ms) {
  const until = performance.now() + ms
  while (performance.now() < until);
}

const HOW = {
  wait: ms => sleep(ms),
  signal: (ms, signal) => sleep(ms, undefined, { signal }),
  busy,
  none: () => undefined,
  throw: ms => sleep(ms),
}

async function step({ file, key, steps = 3, ms = 5, how = 'wait', hold, events = 0, done }, config) {
  const n = done.length + 1
  const { run_id, thread_id, run_attempt } = { ...config.configurable, ...config.metadata }
  const note = mark =>
    appendFileSync(
      file,
      `${[mark, run_id, thread_id, run_attempt, n, process.pid, process.hrtime.bigint(), key].join(' ')}\n`,
    )
  note('B')
  try {
    while (n === hold && !existsSync(`${file}.released`)) await sleep(20)
    for (let i = 1; i <= events; i++) {
      config.writer({ step: n, i })
      if (how !== 'none') await HOW[how](ms / events, config.signal)
    }
    if (how === 'throw' && n === steps) throw new Error('the last step throws')
    if (events === 0) await HOW[how](ms, config.signal)
  } finally {
    note('E')
  }
  return { done: [n] }
}

export const witness = new StateGraph(State)
  .addNode('step', step)
  .addEdge(START, 'step')
  .addConditionalEdges('step', ({ done, steps = 3 }) => (done.length < steps ? 'step' : END))
  .compile()
