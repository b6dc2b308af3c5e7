import t from 'tap'
import { openLog } from '../../bus/log.js'
import type { HandBack } from '../../workers/graph/hand-back.js'
import { type ActiveRun, openRunTable } from '../../workers/graph/run-table.js'
import { openStopping } from '../../workers/graph/stopping.js'
import { type Frame, TO_HOST } from '../../workers/pipe.js'

t.test('a paused run is stopped before it is resumed', async t => {
  for (const reason of ['cancel', 'timeout', 'store', 'lost'] as const) {
    const sent: (number | undefined)[] = []
    const host = { lateBytes: 0, resume() {}, send: ({ kind }: Partial<Frame>) => sent.push(kind), kill() {} }
    const run = {
      run_id: 'r',
      lease: { attempt: 1 },
      phase: 'running',
      host,
      slot: 1,
      hold: { isRunPaused: true, late: 0 },
      stopReason: null,
      graceTimer: null,
    } as unknown as ActiveRun
    const stopping = openStopping({
      log: openLog('test', 'silent'),
      table: openRunTable(),
      handBack: {} as HandBack,
      onStop() {},
      isolate() {},
      suspect() {},
    })
    stopping.stop(run, reason)
    clearTimeout(run.graceTimer!)
    t.same(sent, [TO_HOST.cancel, TO_HOST.resume], reason)
  }
})
