/** Sentences of the launcher on stderr, where the log is: with LOG_FORMAT=json each is a line of JSON as the log has them. */

const INFO = 30
const FATAL = 60

export const speaksJson = (): boolean => process.env.LOG_FORMAT === 'json'

export function say(text: string, fields: object = {}): void {
  write(INFO, text, fields)
}

/** Why the process ends. */
export function sayLast(text: string): void {
  write(FATAL, text, {})
}

function write(level: number, msg: string, fields: object): void {
  const line = speaksJson()
    ? JSON.stringify({ level, time: Date.now(), pid: process.pid, name: 'weft', ...fields, msg })
    : `weft: ${msg}`
  process.stderr.write(`${line}\n`)
}
