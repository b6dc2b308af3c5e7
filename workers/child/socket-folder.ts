/**
 * Folders for sockets, in the temporary folder. The folder is ours, so that nobody else can put another socket, or a link to
 * one, where we connect or listen. One of an app host has a folder of the application in it: there its user binds the socket
 * of `http.app`, which the parent takes from there (`takeSocket`). Folders that a killed process has left are removed when
 * the next one is made.
 */
import {
  chmodSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmdirSync,
  unlinkSync,
} from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { APP_SOCKET, HTTP_SOCKET } from '../../schemas/app-host.js'
import { checkOurs, type HostUser } from './process.js'
import { removeLeftovers } from './user-tree.js'

export interface SocketFolder {
  path: string
  /** Lets the user connect to a socket of ours in this folder. */
  admit(name: string): void
  remove(): void
}

const PREFIX = 'weft-app-'
/** File names that a dead process may leave; the second one is that of edge/http/spare-response.ts. */
const LEFT = [PREFIX, 'weft-edge-']
/** Listens as long as the process lives. */
const OWNER = 'owner.sock'

/** `user`: of the app host that shares the folder; null for our own user, and for sockets that we connect to ourselves. */
export function openSocketFolder(user: HostUser | null): SocketFolder {
  const parent = tmpdir()
  if (user !== null) checkOurs(user, parent, 'TMPDIR')
  for (const prefix of LEFT) void removeLeftovers(parent, prefix, isOwned).catch(() => {})
  const path = mkdtempSync(join(parent, PREFIX))
  const own = join(path, dirname(APP_SOCKET))
  mkdirSync(own, { mode: 0o700 })
  if (user !== null) {
    lchownSync(own, user.uid, user.gid)
    chmodSync(path, 0o711)
  }
  const owner = createServer(socket => socket.destroy())
  // Without it the folder looks like one that was left.
  owner.on('error', () => {})
  owner.listen(join(path, OWNER)).unref()
  return {
    path,
    admit(name) {
      if (user === null) return
      chmodSync(join(path, name), 0o600)
      lchownSync(join(path, name), user.uid, user.gid)
    },
    remove() {
      owner.close()
      // Not what else the application has put there: that is for the next start.
      for (const folder of [own, path]) {
        for (const name of readdirSync(folder)) attempt(() => unlinkSync(join(folder, name)))
        attempt(() => rmdirSync(folder))
      }
    },
  }
}

/** Where requests for `http.app` go. */
export const httpSocket = (folder: string): string => join(folder, HTTP_SOCKET)

/** Makes the socket that the application has bound the one of `httpSocket`. Throws an Error when it is none of the user. */
export function takeSocket(folder: string, user: HostUser | null): void {
  const draft = join(folder, `${HTTP_SOCKET}.new`)
  // Whatever it is now, it is the same from then on: in a folder of ours.
  renameSync(join(folder, APP_SOCKET), draft)
  const found = lstatSync(draft)
  if (!found.isSocket() || (user !== null && found.uid !== user.uid))
    throw new Error(`the application has put something else in the place of its socket`)
  renameSync(draft, httpSocket(folder))
}

/** Whether the process that has made the folder lives. */
const isOwned = (folder: string): Promise<boolean> =>
  new Promise(resolve => {
    const socket = connect(join(folder, OWNER))
    const end = (answer: boolean) => {
      socket.destroy()
      resolve(answer)
    }
    socket.once('connect', () => end(true))
    socket.once('error', (error: NodeJS.ErrnoException) => end(!['ECONNREFUSED', 'ENOENT'].includes(error.code ?? '')))
  })

function attempt(work: () => void): void {
  try {
    work()
  } catch {
    // It is gone, or no file.
  }
}
