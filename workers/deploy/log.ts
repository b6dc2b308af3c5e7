/** Sends the log lines of a revision to the store: in order, in batches of 200 ms. Lost lines are counted and logged. */
import type { Log } from '../../bus/log.js'
import type { DeployLog, LogLine, LogStage } from '../../schemas/deploy-calls.js'

export type Say = (level: 'INFO' | 'WARNING' | 'ERROR', text: string) => void
/** The log of a stage. */
export type LogOf = (stage: LogStage) => Say

export interface RevisionLog {
  of: LogOf
  /** Resolves when all lines so far were stored or given up. */
  flush(): Promise<void>
}

const BATCH_MS = 200
const PER_BATCH = 1_000
/** Waiting lines of a stage; further lines are counted and dropped. */
const MAX_WAITING = 20_000
const PAUSES_MS = [500, 1_000, 2_000, 5_000]

/** `send` delivers a batch; it rejects when no worker stored it. */
export function openRevisionLog(
  ids: { deployment_id: string; revision_id: string },
  send: (batch: DeployLog) => Promise<unknown>,
  log: Log,
): RevisionLog {
  const stages = new Map<LogStage, { say: Say; flush(): Promise<void> }>()
  const stageOf = (stage: LogStage) => {
    const known = stages.get(stage)
    if (known !== undefined) return known
    const made = openStage({ ...ids, stage }, send, log)
    stages.set(stage, made)
    return made
  }
  return {
    of: stage => stageOf(stage).say,
    flush: async () => void (await Promise.all([...stages.values()].map(stage => stage.flush()))),
  }
}

function openStage(
  ids: Omit<DeployLog, 'lines'>,
  send: (batch: DeployLog) => Promise<unknown>,
  log: Log,
): { say: Say; flush(): Promise<void> } {
  let waiting: LogLine[] = []
  let dropped = 0
  let timer: NodeJS.Timeout | undefined
  let sending: Promise<void> = Promise.resolve()

  function flush(): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    sending = sending.then(async () => {
      while (waiting.length > 0) {
        const lines = waiting.slice(0, PER_BATCH)
        waiting = waiting.slice(PER_BATCH)
        if (dropped > 0)
          lines.push({ t: Date.now(), level: 'WARNING', text: `${dropped} lines were dropped: too many at once` })
        dropped = 0
        await deliver({ ...ids, lines })
      }
    })
    return sending
  }

  async function deliver(batch: DeployLog): Promise<void> {
    for (let n = 0; ; n++) {
      try {
        await send(batch)
        return
      } catch (error) {
        const pause = PAUSES_MS[n]
        if (pause === undefined) {
          log.warn({ err: error, ...ids, lines: batch.lines.length }, 'log lines of a revision were lost')
          return
        }
        await new Promise(done => setTimeout(done, pause))
      }
    }
  }

  return {
    say(level, text) {
      if (waiting.length >= MAX_WAITING) dropped++
      else waiting.push({ t: Date.now(), level, text })
      timer ??= setTimeout(() => void flush(), BATCH_MS)
    },
    flush,
  }
}
