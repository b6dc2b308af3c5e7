/**
 * A server that does nothing, as a child process: answers every request with the same bytes. The rate of the bench's
 * client against it is the highest rate that the bench can measure.
 */
import { createServer } from 'node:net'

const BODY = JSON.stringify({ n: 1, filler: 'x'.repeat(230) })
const ANSWER = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`

const server = createServer({ noDelay: true }, socket => {
  socket.on('error', () => {})
  // The clients send one request at a time, without a body.
  socket.on('data', () => void socket.write(ANSWER))
})
server.listen(0, '127.0.0.1', () => process.send!((server.address() as { port: number }).port))
process.once('disconnect', () => process.exit(0))
