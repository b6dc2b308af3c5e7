/**
 * Allows one deploy worker per folder, so that it may take over the state of an earlier process. The lock is a listening
 * socket, which the kernel closes with the process; a stale one refuses connections.
 */
import { createHash } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Maximum length of a socket path on all systems. */
const MAX_PATH = 100

/** Resolves to the release function. Throws an Error with one sentence when another process owns the folder. */
export async function ownFolder(folder: string): Promise<() => Promise<void>> {
  const inside = join(folder, 'owner.sock')
  const hash = createHash('sha256').update(folder).digest('hex').slice(0, 24)
  const path = inside.length <= MAX_PATH ? inside : join(tmpdir(), `weft-${hash}.sock`)
  if (await answers(path)) throw new Error(`the folder ${folder} is in use by another deploy worker`)
  await rm(path, { force: true })
  const server = await listen(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EADDRINUSE') throw new Error(`the folder ${folder} is in use by another deploy worker`)
    throw error
  })
  server.unref()
  return () => new Promise(done => server.close(() => done()))
}

const answers = (path: string): Promise<boolean> =>
  new Promise(done => {
    const socket = connect(path)
    const end = (answer: boolean) => {
      socket.destroy()
      done(answer)
    }
    socket.once('connect', () => end(true))
    socket.once('error', () => end(false))
  })

const listen = (path: string): Promise<Server> =>
  new Promise((resolve, reject) => {
    const server = createServer(socket => socket.destroy())
    server.once('error', reject)
    server.listen(path, () => resolve(server))
  })
