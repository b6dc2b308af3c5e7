/** One logger per role: data first, one line per message, never a payload or a credential. */
import { type Logger, pino } from 'pino'

export type Log = Logger

/** A logger named after its role. Writes JSON lines to stderr, so stdout stays the user's. */
export const openLog = (role: string, level: string): Log =>
  pino({ name: role, level, base: { pid: process.pid } }, pino.destination({ dest: 2, sync: true }))
