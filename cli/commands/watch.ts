/** Watches the source files of an application for `weft dev`. */
import { basename, relative, resolve, sep } from 'node:path'
import { watch } from 'chokidar'

/** Files that graphs are made of; an application may write others beside them. */
const SOURCE = /\.(ts|tsx|mts|cts|js|jsx|mjs|cjs|py|toml)$|^(langgraph|package|tsconfig)\.json$|^\.env/
const IGNORED = /^(node_modules|__pycache__|venv|\..*)$/
/** An editor writes several files at once, and some of them twice. */
const PAUSE_MS = 100

/**
 * Calls `onChange` with paths relative to the folder, one call at a time: changes during a call are one further call.
 * `data`: the data folder, which may be below. `ready`: changes are seen from then on.
 */
export function watchFolder(
  folder: string,
  data: string,
  onChange: (files: string[]) => Promise<void>,
): { ready: Promise<void>; close(): Promise<void> } {
  const own = resolve(data)
  const changed = new Set<string>()
  let timer: NodeJS.Timeout | undefined
  let isBusy = false
  async function report(): Promise<void> {
    if (isBusy) return
    isBusy = true
    while (changed.size > 0) {
      const files = [...changed]
      changed.clear()
      await onChange(files)
    }
    isBusy = false
  }
  const watcher = watch(folder, {
    ignoreInitial: true,
    ignored: (path, stats) => {
      if (path === folder) return false
      if (path === own || path.startsWith(own + sep)) return true
      const name = basename(path)
      return stats?.isFile() ? !SOURCE.test(name) : IGNORED.test(name) && !SOURCE.test(name)
    },
  })
  watcher.on('all', (_, path) => {
    if (!SOURCE.test(basename(path))) return
    changed.add(relative(folder, path))
    clearTimeout(timer)
    timer = setTimeout(report, PAUSE_MS)
  })
  const ready = new Promise<void>(done => watcher.once('ready', done))
  return { ready, close: () => watcher.close() }
}
