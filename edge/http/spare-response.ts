/**
 * A response that the edge holds open to itself. After an asynchronous check, uWebSockets.js 20 wants an upgrade within the
 * `cork` of a response. Within the `cork` of the upgraded response it may read the new WebSocket as the old request, and
 * closes about one in a thousand at once (https://github.com/uNetworking/uWebSockets/pull/1929; no package on npm has it).
 */

import type { HttpResponse } from 'uWebSockets.js'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { uWS } from './library.js'

export interface SpareResponse {
  /** Runs `work` now, within `cork` of the spare response. */
  cork(work: () => void): void
  close(): void
}

/** Rejects when no Unix socket can be opened in the folder for temporary files. */
export async function openSpareResponse(): Promise<SpareResponse> {
  const folder = await mkdtemp(join(tmpdir(), 'weft-edge-'))
  const path = join(folder, 'spare')
  const app = uWS.App()
  try {
    const arrived = new Promise<HttpResponse>(done => {
      app.any('/*', response => {
        response.onAborted(() => {})
        done(response)
      })
    })
    if (!(await new Promise(done => app.listen_unix(done, path)))) throw new Error(`${path} cannot be listened on`)
    const client = connect(path)
    await once(client, 'connect')
    client
      .unref()
      .on('error', () => {})
      .write('GET / HTTP/1.1\r\nHost: spare\r\n\r\n')
    const response = await arrived
    return {
      cork: work => void response.cork(work),
      close: () => void app.close(),
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
