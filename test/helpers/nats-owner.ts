/** Starts a NATS server on the folder of its argument, prints its process id and waits to be killed. */
import { startNatsProcess } from '../../cli/nats/process.js'
import { findNatsServer } from '../../cli/nats/server.js'

const nats = await startNatsProcess({
  server: await findNatsServer(),
  data: process.argv[2]!,
  max_file_store: 1024 ** 2,
})
process.stdout.write(`${nats.pid()}\n`)
