/** One logger per role: data first, one line per message, never a payload or a credential. */
import { isatty } from 'node:tty'
import { type Logger, pino, stdSerializers } from 'pino'
import { prettyLine } from './log-pretty.js'
import { sourceStack } from './log-stack.js'

export type Log = Logger

/** `auto`: short lines for a person when stderr is a terminal, JSON lines otherwise. */
export type LogFormat = 'auto' | 'pretty' | 'json'

/** A logger with the name of its role. It writes to stderr: stdout belongs to the command. */
export function openLog(role: string, level: string, format: LogFormat = 'json'): Log {
  const stderr = pino.destination({ dest: 2, sync: true })
  const pretty = format === 'pretty' || (format === 'auto' && isatty(2))
  // Honours NO_COLOR.
  const colors = isatty(2) && process.stderr.hasColors()
  const readers = new Set<OnEntry>()
  const write = (line: string) => {
    stderr.write(pretty ? prettyLine(line, colors) : line)
    for (const read of readers) read(line)
  }
  const log = pino({ name: role, level, base: { pid: process.pid }, serializers: { err: describe } }, { write })
  readersOf.set(log, readers)
  return log
}

/** Gets each line of a logger, and of loggers that are made from it, as JSON. */
type OnEntry = (line: string) => void
const readersOf = new WeakMap<Log, Set<OnEntry>>()

/** `onEntry` gets what this logger writes, until it is called back. Nothing of loggers that `openLog` has not made. */
export function followLog(log: Log, onEntry: OnEntry): () => void {
  const readers = readersOf.get(log)
  readers?.add(onEntry)
  return () => void readers?.delete(onEntry)
}

/** Serializes an error like pino, with positions in the sources. `error` may be any thrown value. */
function describe(error: Error): unknown {
  const described = stdSerializers.err(error) as { stack?: unknown } | null | undefined
  return typeof described?.stack === 'string'
    ? Object.assign(described, { stack: sourceStack(described.stack) })
    : described
}
