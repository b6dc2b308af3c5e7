/**
 * The HTTP library has a native part for some versions of Node.js, and its package contains those of every platform. So a
 * command that serves HTTP downloads what is missing into the cache, once: the library, and a Node.js for which it is
 * built. Other commands need neither.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { say } from './say.js'
import { UserError } from './user-error.js'

/** The interfaces for native modules of Node.js 20 and 22, for which the library is built. */
const BUILT_FOR = ['115', '127']
/** The line of Node.js that serves where this one cannot. */
export const HTTP_NODE = 22

export const canServe = (modules = process.versions.modules): boolean => BUILT_FOR.includes(modules)

/** Returns when this process can serve HTTP; else the process goes on as the same command on another Node.js. */
export async function prepareHttp(): Promise<void> {
  const packages = await import('../workers/npm-package.js')
  try {
    if (!canServe()) return await changeNode(packages)
    if (!process.env.WEFT_HTTP_LIBRARY && !isInstalled()) process.env.WEFT_HTTP_LIBRARY = await fetchLibrary(packages)
  } catch (error) {
    throw new UserError((error as Error).message)
  }
}

type Packages = typeof import('../workers/npm-package.js')

async function changeNode({ fetchNode, findNode }: Packages): Promise<void> {
  const { execve } = process as { execve?(file: string, args: string[], env: NodeJS.ProcessEnv): never }
  if (execve === undefined)
    throw new Error(`the HTTP server needs Node.js ${HTTP_NODE}, and this is ${process.versions.node}: install it`)
  const node =
    findNode(HTTP_NODE, process.env) ??
    (await fetchNode(HTTP_NODE, process.env, line =>
      say(`${line}: the HTTP server does not run on ${process.version}`),
    ))
  // Graphs run faster on a newer one.
  const newest = process.env.WEFT_NEWEST_NODE || process.execPath
  const args = [node, ...process.execArgv, ...process.argv.slice(1)]
  execve(node, args, { ...process.env, WEFT_NEWEST_NODE: newest })
}

function isInstalled(): boolean {
  try {
    const index = fileURLToPath(import.meta.resolve('uWebSockets.js'))
    return existsSync(join(index, '../bin', FILE))
  } catch {
    return false
  }
}

const FILE = `uws_${process.platform}_${process.arch}_${process.versions.modules}.node`

/** The native part for this process. Those of both lines stay, so that a change of Node.js needs no download. */
async function fetchLibrary({ cacheFolder, fetchPackage, keepOnly, pinned }: Packages): Promise<string> {
  const { http: pin } = pinned
  const folder = join(cacheFolder(process.env), `${pin.name}-${pin.version}`)
  const mine = BUILT_FOR.map(modules => `uws_${process.platform}_${process.arch}_${modules}.node`)
  const found = await fetchPackage({
    pin,
    folder,
    env: process.env,
    log: say,
    what: 'the HTTP library',
    change: path => keepOnly(join(path, 'dist/bin'), name => mine.includes(name)),
  })
  const file = join(found, 'dist/bin', FILE)
  if (!existsSync(file)) throw new Error(`the HTTP library has no part for ${process.platform} ${process.arch}`)
  return file
}
