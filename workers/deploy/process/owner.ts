/**
 * Allows one deploy worker per folder, so that it may take over the state of an earlier process. The lock is a listening
 * socket in the folder, which other users cannot reach and which the kernel closes with the process; a stale one
 * refuses connections.
 */
import { type FileHandle, open, rm } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { join } from 'node:path'

/** Maximum length of a socket path on all systems. */
const MAX_PATH = 100

/** Resolves to the release function. Throws an Error with one sentence when another process owns the folder. */
export async function ownFolder(folder: string): Promise<() => Promise<void>> {
  const inside = join(folder, 'owner.sock')
  const handle = inside.length > MAX_PATH ? await openShort(folder) : null
  try {
    const path = handle === null ? inside : `/proc/self/fd/${handle.fd}/owner.sock`
    if (await answers(path)) throw new Error(`the folder ${folder} is in use by another deploy worker`)
    await rm(inside, { force: true })
    const server = await listen(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') throw new Error(`the folder ${folder} is in use by another deploy worker`)
      throw error
    })
    server.unref()
    return async () => {
      await new Promise<void>(done => server.close(() => done()))
      await rm(inside, { force: true })
      await handle?.close()
    }
  } catch (error) {
    await handle?.close()
    throw error
  }
}

/** Linux reaches a folder by its descriptor, which makes a short path of a long one. */
async function openShort(folder: string): Promise<FileHandle> {
  if (process.platform === 'linux') return open(folder)
  throw new Error(`the path of the folder ${folder} is too long for a lock; expected a shorter WEFT_DATA`)
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
