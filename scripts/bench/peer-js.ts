/**
 * The official JavaScript development server as a peer: in memory, with its default settings. It is installed once into
 * the cache, with the libraries that Weft pins, and never into this repository.
 */
import { execFile, spawn } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, openSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { readManifest } from '../../bus/versions.js'
import { freePort } from '../../cli/ports.js'
import { benchApp, endsWithUs, type Kind, plainEnv, type Server, stopAll, untilServed } from './server.js'

const CLI = '2.0.0'
const INSTALL_MS = 300_000

const folder = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'weft', `peer-langgraph-cli-${CLI}`)
const command = join(folder, 'node_modules/.bin/langgraphjs')

export const hasDevServer = (): boolean => existsSync(command)

/** Throws an Error with one sentence when it cannot be installed. */
export async function devServer(say: (line: string) => void): Promise<Kind> {
  if (!hasDevServer()) await install(folder, say)
  return {
    name: 'dev-server',
    async start({ wait = true, app: source = benchApp } = {}) {
      // Below the folder, so that the application finds the libraries; the server writes a folder beside the graphs.
      const app = mkdtempSync(join(folder, 'app-'))
      cpSync(source, app, { recursive: true })
      const port = await freePort()
      const log = join(app, 'bench.log')
      const out = openSync(log, 'a')
      const args = [command, 'dev', '--no-browser', '--host', '127.0.0.1', '--port', `${port}`]
      const child = endsWithUs(
        spawn(process.execPath, args, { cwd: app, stdio: ['ignore', out, out], env: plainEnv() }),
      )
      const server: Server = {
        name: 'dev-server',
        port,
        gapless: false,
        // It rewrites all of its data to disk repeatedly, which takes the longer the more it holds.
        restless: true,
        pids: () => [child.pid!],
        data: null,
        monitor: null,
        stop: () => stopAll([child], app),
      }
      if (wait) await untilServed(server, child, log)
      return server
    },
  }
}

async function install(folder: string, say: (line: string) => void): Promise<void> {
  say(`installing @langchain/langgraph-cli ${CLI} into ${folder}`)
  const { dependencies } = readManifest()
  const wanted = {
    '@langchain/core': dependencies['@langchain/core'],
    '@langchain/langgraph': dependencies['@langchain/langgraph'],
    zod: dependencies.zod,
    '@langchain/langgraph-cli': CLI,
    typescript: '^5.5.4',
  }
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, type: 'module', dependencies: wanted }))
  try {
    const flags = ['install', '--no-audit', '--no-fund', '--loglevel=error']
    await promisify(execFile)('npm', flags, { cwd: folder, timeout: INSTALL_MS })
  } catch (error) {
    const [line] = `${(error as { stderr?: string }).stderr || (error as Error).message}`.trim().split('\n')
    throw new Error(`the development server ${CLI} could not be installed here (${line})`)
  }
}
