/**
 * A MongoDB server for tests: the one of MONGODB_URL, else `mongod` on PATH, else docker, else mongo-java-server with
 * the JDK of the machine. A started server ends with this process and has its own data folder.
 */
import { execFile } from 'node:child_process'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { JAVA_SERVER, javaServer } from './jars.js'

export const MONGO_IMAGE = 'mongo:7'

export interface MongoFindOptions {
  /** Folder of the cache; `$XDG_CACHE_HOME/weft` or `~/.cache/weft` when absent. */
  cache?: string
  log?: (line: string) => void
  env?: NodeJS.ProcessEnv
  /** True: a server that is started here, so that it can be killed. MONGODB_URL is ignored. */
  own?: boolean
  repository?: string
  /** It is measured, or serves a long load. */
  lasting?: boolean
}

/** A server that already runs, or a command that serves a folder at a port. */
export type MongoWay = { kind: 'url'; url: string } | OwnWay

export interface OwnWay {
  kind: 'mongod' | 'docker' | 'java'
  /** Its name and version. */
  name: string
  command(data: string, port: number): string[]
  /** Set when a signal to the process does not reach the server. */
  kill?(port: number): Promise<void>
}

type Env = NodeJS.ProcessEnv
const run = promisify(execFile)

/** Throws an Error with one sentence that names the choices. */
export async function findMongo({
  cache,
  log = () => {},
  env = process.env,
  own = false,
  repository,
  lasting = false,
}: MongoFindOptions = {}): Promise<MongoWay> {
  const given = env.WEFT_TEST_MONGODB_URL || env.MONGODB_URL
  if (given && !own) return { kind: 'url', url: given }
  const version = await outputOf('mongod', ['--version'], env)
  if (version !== null)
    return { kind: 'mongod', name: `mongod ${/v(\d\S*)/.exec(version)?.[1] ?? ''}`, command: mongod }
  if ((await outputOf('docker', ['info'], env)) !== null) return docker(env)
  const base = cache ?? join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'weft')
  let why = 'there is no JDK'
  try {
    const java = await javaServer({ cache: base, env, log, lasting, ...(repository ? { repository } : {}) })
    if (java !== null)
      return { kind: 'java', name: JAVA_SERVER, command: (data, port) => [...java, join(data, 'mongo.h2'), `${port}`] }
  } catch (error) {
    why = (error as Error).message.split('\n')[0]!
  }
  throw new Error(
    `no MongoDB server was found for the tests (${why}): set MONGODB_URL to one, or put mongod on PATH, or start docker, ` +
      'or install a JDK (`apt-get install default-jdk-headless`), or leave these tests out with --embedded-only',
  )
}

const mongod = (data: string, port: number): string[] => [
  'mongod',
  '--dbpath',
  data,
  '--port',
  `${port}`,
  '--bind_ip',
  '127.0.0.1',
  '--logpath',
  join(data, 'mongod.log'),
]

function docker(env: Env): OwnWay {
  const name = (port: number) => `weft-mongo-${process.pid}-${port}`
  return {
    kind: 'docker',
    name: `mongod of the image ${MONGO_IMAGE}`,
    command: (data, port) => [
      ...['docker', 'run', '--rm', '--name', name(port), '--publish', `127.0.0.1:${port}:27017`],
      ...['--volume', `${data}:/data/db`, MONGO_IMAGE],
    ],
    kill: async port => void (await run('docker', ['kill', name(port)], { env })),
  }
}

/** Null: the command is not there, or fails. */
const outputOf = (command: string, args: string[], env: Env): Promise<string | null> =>
  run(command, args, { env, timeout: 20_000 }).then(
    ({ stdout }) => stdout,
    () => null,
  )
