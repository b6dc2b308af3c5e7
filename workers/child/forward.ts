/**
 * A program in a sandbox without a network: listens on a port of its loopback interface and passes each connection on to
 * the proxy of Weft, whose socket is bound there. Writes a word when it listens, and closes its outputs.
 */
import { closeSync, openSync, writeSync } from 'node:fs'
import { connect, createServer } from 'node:net'

const [socket = '', port] = process.argv.slice(2)

createServer({ allowHalfOpen: true }, near => {
  const far = connect({ path: socket, allowHalfOpen: true })
  near.pipe(far).pipe(near)
  near.on('error', () => far.destroy()).on('close', () => far.destroy())
  far.on('error', () => near.destroy()).on('close', () => near.destroy())
}).listen(Number(port), '127.0.0.1', () => {
  writeSync(1, 'listens')
  for (const output of [1, 2]) {
    closeSync(output)
    // It takes the number, which Node.js looks up later.
    openSync('/dev/null', 'w')
  }
})
