/**
 * A graph host: a child process that loads the application named by WEFT_APP and runs its graphs. It speaks frames
 * with its supervisor over descriptor 3, its watchdog tells who holds the event loop over WEFT_NOTES_FD; it has no
 * other connection, no lease token and no credential.
 *
 * What kills it (exit, an exception or a rejection that nobody caught) is said in its last words, with the run to
 * charge: the other runs here are given back and lose nothing but time.
 */
import './tuning.js'
import { Socket } from 'node:net'
import { loadApplication } from './application.js'
import { Stopped } from './run.js'
import { serveHost } from './server.js'
import { startWatchdog } from './watchdog.js'

const { WEFT_APP: path, WEFT_NOTES_FD: notes } = process.env
const watchdog = startWatchdog(notes === undefined ? null : Number(notes))
const stream = new Socket({ fd: 3 })
// The parent is gone: nobody waits for anything here.
for (const event of ['end', 'close', 'error']) stream.on(event, () => process.exit(0))

/** Runs that still go on, once the host serves. */
let goesOn: (slot: number) => boolean = () => true

process.on('unhandledRejection', reason => {
  // What a stopped graph, or one whose run has ended, rejects afterwards is no fault of the runs that are here now.
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
// A graph that logs faster than it is read waits, and piles nothing up here; what fails to be written is no fault of it.
for (const output of [process.stdout, process.stderr] as (NodeJS.WriteStream & { _handle?: Blocking })[]) {
  output._handle?.setBlocking?.(true)
  output.on('error', () => {})
}
process.on('exit', code => watchdog.last({ error: 'ProcessExit', message: `the process ended with exit code ${code}` }))
// No event tells of this one.
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
goesOn = serveHost(stream, await loadApplication(path), watchdog).goesOn
