/** The languages of an application's graphs, and the program of a host for each. */
import { existsSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type AppConfig, readAppConfig, settingsOf } from '../../schemas/application.js'
import { type AppSource, exportOf, type Language, localFolders, readDescription } from '../../schemas/description.js'
import { nodeProgram, type Program } from './start.js'

const JAVASCRIPT_HOST = fileURLToPath(new URL('../../programs/host.js', import.meta.url))
/** Below the root of the package: sources run from `dist`, where no Python is. */
const PYTHON_HOST = fileURLToPath(new URL('../../../workers/host-python/start.py', import.meta.url))

type Env = { [name: string]: string | undefined }

/**
 * The languages of the graphs of the application at `app`, sorted. A file that cannot be read belongs to JavaScript, whose hosts report the reason.
 */
export function languagesOf(app: string, env: Env, read = textOf): Language[] {
  try {
    const { graphs } = readDescription({ path: app, env, read })
    return [...new Set(graphs.map(({ language }) => language))].sort()
  } catch {
    return ['javascript']
  }
}

export interface ProgramOptions {
  /** Absolute path of langgraph.json. */
  app: string
  /** The variables of the host. */
  env: Env
  memory_mb: number
  /** Path of the Node.js of JavaScript hosts. */
  node: string
  /** The interpreter of Python hosts; null without Python graphs. */
  python: string | null
  /** Threads of a Python host for synchronous nodes. */
  threads: number
  /** Reads langgraph.json and its environment file for Python hosts; as this process can when absent. */
  read?: AppSource['read'] | undefined
}

export function programOf(language: Language, options: ProgramOptions): Program {
  const { app, env, memory_mb, node, python, threads, read } = options
  if (language === 'javascript') return nodeProgram(JAVASCRIPT_HOST, memory_mb, node)
  return {
    command: python ?? 'python3',
    args: ['-X', 'utf8', PYTHON_HOST],
    env: {
      WEFT_DESCRIPTION: descriptionOf(app, env, read),
      WEFT_HOST_MEMORY_MB: `${memory_mb}`,
      WEFT_HOST_THREADS: `${threads}`,
    },
  }
}

/** As host-python/weft_host/description.py reads it. What is wrong with langgraph.json is reported by the host. */
function descriptionOf(app: string, env: Env, read = textOf): string {
  const folder = dirname(app)
  try {
    const config = readAppConfig({ path: app, env, read })
    const { notes, serde, checkpointer } = config
    const folders = localFolders(config.dependencies, folder)
    const graphs = config.graphs.filter(({ language }) => language === 'python').map(rowOf)
    const hello = { ...settingsOf(config, { ...config.env, ...env }), notes }
    return JSON.stringify({
      folder,
      graphs,
      dependencies: folders.filter(each => existsSync(each)),
      env: config.env,
      hello,
      serde,
      checkpointer: checkpointer === null ? null : exported(checkpointer, folder),
    })
  } catch (error) {
    return JSON.stringify({ folder, hello: { error: (error as Error).message } })
  }
}

/** Members of an Export in Python. */
function exported(text: string, folder: string) {
  const { file, module, name } = exportOf(text, folder)
  return { text, place: file ?? module ?? '', name }
}

const rowOf = ({ graph_id, description, file, module, name, error, config, context }: AppConfig['graphs'][number]) => ({
  graph_id,
  description,
  place: file ?? module ?? '',
  name,
  error,
  config,
  context,
})

export const textOf: AppSource['read'] = path => (existsSync(path) ? readFileSync(path, 'utf8') : null)
