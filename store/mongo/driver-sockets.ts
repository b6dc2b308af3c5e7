/**
 * Ends commands that the driver has not written to the end when it closes their connection. It waits for `drain` or `error`
 * of the socket and destroys it without an error, so such a command would never end and its place in the pool would stay
 * taken (mongodb 7.9.0, lib/cmap/connection.js; test/store/mongo-outage fails without this).
 */
import { Connection } from 'mongodb/lib/cmap/connection.js'

const { prototype } = Connection
const { cleanup } = prototype

prototype.cleanup = function (error) {
  if (this.closed) return
  cleanup.call(this, error)
  if (this.socket.listenerCount('drain') > 0) this.socket.emit('error', error)
}
