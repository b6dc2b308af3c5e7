/**
 * A graph host: a child process that loads the application named by WEFT_APP and runs its graphs. It speaks frames
 * with its supervisor over descriptor 3 and has no other connection, no lease token and no credential.
 */
import './host-tuning.js'
import { Socket } from 'node:net'
import { loadApplication } from './application.js'
import { Stopped } from './host-run.js'
import { serveHost } from './host-server.js'

const stream = new Socket({ fd: 3 })
// The parent is gone: nobody waits for anything here.
for (const event of ['end', 'close', 'error']) stream.on(event, () => process.exit(0))

// What a stopped graph rejects after its run has ended is no fault.
process.on('unhandledRejection', reason => {
  if (reason instanceof Stopped) return
  console.error('Unhandled rejection:', reason)
  process.exit(1)
})

const path = process.env.WEFT_APP
if (path === undefined) {
  console.error('WEFT_APP must name the langgraph.json of the application.')
  process.exit(1)
}
serveHost(stream, await loadApplication(path))
