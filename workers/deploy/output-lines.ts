/** The output of programs, line by line, as it enters a deployment's log. */
import type { Redactor } from '../../schemas/redact.js'

const MAX_LINE = 16 * 1024
/** util.stripVTControlCharacters leaves a part of titles with spaces. */
const ANSI = /\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])/g

/**
 * Calls back once per line: without colours, with secrets redacted, then cut at MAX_LINE. The returned function passes
 * on an unfinished last line.
 */
export function lines(stream: NodeJS.ReadableStream, redactor: Redactor, onLine: (text: string) => void): () => void {
  /** Characters that are kept of a line that continues: a secret that begins before the cut is found only whole. */
  const enough = 2 * MAX_LINE + redactor.longest
  let rest = ''
  /** The current line was cut and passed on already. */
  let isCut = false
  const pass = (text: string, { unfinished = false } = {}) => {
    let clean = redactor.redact(text.replace(ANSI, '')).trimEnd()
    if (unfinished) clean = clean.slice(0, Math.max(0, clean.length - redactor.longest))
    if (clean !== '' && !isCut) onLine(clean.length > MAX_LINE || unfinished ? `${clean.slice(0, MAX_LINE)}…` : clean)
    isCut = unfinished
  }
  stream.setEncoding('utf8')
  stream.on('data', (text: string) => {
    const [first, ...more] = text.split(/\r\n|\n|\r/)
    rest += first
    for (const next of more) {
      pass(rest)
      rest = next
    }
    if (isCut) rest = ''
    if (rest.length <= enough) return
    pass(rest, { unfinished: true })
    rest = ''
  })
  return () => {
    pass(rest)
    rest = ''
  }
}

/** Log lines of Weft are JSON with a level; all other lines are output of the application. */
export function parseLogLine(text: string): ['INFO' | 'WARNING' | 'ERROR', string] {
  if (!text.startsWith('{"level":')) return ['INFO', text]
  const level = Number(/^\{"level":(\d+)/.exec(text)![1])
  return [level >= 50 ? 'ERROR' : level >= 40 ? 'WARNING' : 'INFO', text]
}
