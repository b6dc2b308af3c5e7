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
  const out = pretty ? { write: (line: string) => void stderr.write(prettyLine(line, colors)) } : stderr
  return pino({ name: role, level, base: { pid: process.pid }, serializers: { err: describe } }, out)
}

/** Serializes an error like pino, with positions in the sources. `error` may be any thrown value. */
function describe(error: Error): unknown {
  const described = stdSerializers.err(error) as { stack?: unknown } | null | undefined
  return typeof described?.stack === 'string'
    ? Object.assign(described, { stack: sourceStack(described.stack) })
    : described
}
