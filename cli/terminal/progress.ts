/** Progress on stderr of a terminal, once something takes two seconds; nothing elsewhere. */
import cliProgress from 'cli-progress'

export interface Progress {
  /** `total` 0: how much there is to do is not known, so the seconds are shown. `text` describes what is done now. */
  update(done: number, total: number, text?: string): void
  /** Removes it until the next update, before a line is printed. */
  clear(): void
  stop(): void
}

const { Format, Presets, SingleBar } = cliProgress
const AFTER_MS = 2_000

export function openProgress(what: string): Progress {
  const since = Date.now()
  const bar = new SingleBar(
    {
      stream: process.stderr,
      format: (options, { progress, total }, { text }) =>
        total === 0
          ? `${what} ${Math.floor((Date.now() - since) / 1000)} s`
          : `${what} ${Format.BarFormat(progress, options)} ${Math.floor(progress * 100)}% ${text}`,
      barsize: 24,
      hideCursor: true,
      clearOnComplete: true,
      stopOnComplete: false,
      linewrap: false,
    },
    Presets.shades_classic,
  )
  let shown = false
  return {
    update(done, total, text = '') {
      if (!process.stderr.isTTY || (!shown && Date.now() - since < AFTER_MS)) return
      if (!shown) bar.start(total, done, { text })
      shown = true
      bar.setTotal(total)
      bar.update(done, { text })
    },
    clear() {
      if (shown) process.stderr.write('\r\u001b[K')
    },
    stop() {
      if (shown) bar.stop()
      shown = false
    },
  }
}

/** Runs `work`, which may say how far it is; the seconds are shown as long as it does not. */
export async function withProgress<T>(what: string, work: (progress: Progress) => Promise<T>): Promise<T> {
  const progress = openProgress(what)
  const timer = setTimeout(() => progress.update(0, 0), AFTER_MS)
  try {
    return await work(progress)
  } finally {
    clearTimeout(timer)
    progress.stop()
  }
}
