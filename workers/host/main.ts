/**
 * A graph host: a child process that loads the application named by WEFT_APP and runs its graphs. It exchanges frames
 * with its supervisor over descriptor 3. Its watchdog reports the run that holds the event loop over WEFT_NOTES_FD. Its code
 * may call the API over the socket in WEFT_LOOPBACK. The host has no other connection, no lease token and no credential.
 *
 * Before the process dies (exit, an uncaught exception or an unhandled rejection), it reports the cause and the
 * responsible run in a last message. The other runs in the host are handed back and lose nothing but time.
 */
import './library/tuning.js'
import './library/bigint.js'
import { Socket } from 'node:net'
import { registerLoopback } from './app/loopback.js'
import { loadApplication } from './application.js'
import { startWatchdog } from './guards/watchdog.js'
import { markOutput } from './output-marks.js'
import { Stopped } from './run.js'
import { serveHost } from './server.js'
import { tuneStores } from './storage/item-queue.js'

const { WEFT_APP: path, WEFT_NOTES_FD: notes, WEFT_LOOPBACK: sockets } = process.env
const watchdog = startWatchdog(notes === undefined ? null : Number(notes))
markOutput(watchdog.slot)
const stream = new Socket({ fd: 3 })
// The parent process has ended: no process waits for results of this host.
for (const event of ['end', 'close', 'error']) stream.on(event, () => process.exit(0))

/** Returns whether the run in a slot is still active, once the host serves. */
let goesOn: (slot: number) => boolean = () => true

process.on('unhandledRejection', reason => {
  // Rejections of a stopped graph, or of a run that has ended, are not caused by the runs that are active now.
  if (reason instanceof Stopped) return
  console.error('Unhandled rejection:', reason)
  const slot = watchdog.slot()
  if (slot !== 0 && !goesOn(slot)) return
  watchdog.last({ error: 'UnhandledRejection', message: sentenceOf(reason) })
  process.exit(1)
})
process.on('uncaughtException', error => {
  console.error('Uncaught exception:', error)
  watchdog.last({ error: 'UncaughtException', message: sentenceOf(error) })
  process.exit(1)
})
// Blocking writes: a graph that logs faster than the reader reads waits, and no output accumulates here. Graph code is
// not blamed for failed writes.
for (const output of [process.stdout, process.stderr] as (NodeJS.WriteStream & { _handle?: Blocking })[]) {
  output._handle?.setBlocking?.(true)
  output.on('error', () => {})
}
process.on('exit', code => watchdog.last({ error: 'ProcessExit', message: `the process ended with exit code ${code}` }))
// Node.js emits no event for abort().
const abort = process.abort.bind(process)
process.abort = () => {
  watchdog.last({ error: 'ProcessExit', message: 'the process called abort()' })
  return abort()
}

interface Blocking {
  setBlocking?(blocking: boolean): void
}

function sentenceOf(reason: unknown): string {
  try {
    return reason instanceof Error ? `${reason.name}: ${reason.message}` : String(reason)
  } catch {
    return 'something that cannot be shown'
  }
}

if (path === undefined) {
  console.error('WEFT_APP must name the langgraph.json of the application.')
  process.exit(1)
}
const application = await loadApplication(path)
tuneStores(application.storeWrapper)
if (sockets !== undefined) registerLoopback(sockets)
goesOn = serveHost(stream, application, watchdog).goesOn
