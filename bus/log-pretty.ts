/**
 * A JSON line of the log as short lines for a person: time, level, role, message, fields. Control characters are escaped,
 * so that a logged text cannot move the cursor or fake another line.
 */

const LEVELS: { readonly [level: number]: readonly [name: string, color: number] } = {
  20: ['debug', 90],
  30: ['info', 32],
  40: ['warn', 33],
  50: ['error', 31],
  60: ['fatal', 31],
}
/** Fields that the beginning of the line shows already, or that a person does not need. */
const HIDDEN = new Set(['level', 'time', 'pid', 'hostname', 'name', 'msg', 'err'])
const MAX_VALUE = 400
const MAX_STACK = 12

interface LoggedError {
  type?: string
  message?: string
  stack?: string
}

export function prettyLine(line: string, colors: boolean): string {
  let record: { [key: string]: unknown }
  try {
    record = JSON.parse(line) as { [key: string]: unknown }
  } catch {
    return line
  }
  const { level, time, name, msg, err } = record
  const [word, color] = LEVELS[level as number] ?? ['log', 0]
  const paint = (text: string, code: number) => (colors ? `\x1b[${code}m${text}\x1b[0m` : text)
  const fields = Object.entries(record)
    .filter(([key, value]) => !HIDDEN.has(key) && value !== undefined && value !== null)
    .map(([key, value]) => `${paint(`${key}=`, 90)}${textOf(value)}`)
  const error = (err ?? null) as LoggedError | null
  const parts = [
    paint(clock(time), 90),
    paint(word.padEnd(5), color),
    `${name ?? ''}`.padEnd(9),
    plain(`${msg ?? ''}`),
    ...fields,
    ...(error === null ? [] : [paint('error=', 90) + textOf(`${error.type ?? 'Error'}: ${error.message ?? ''}`)]),
  ]
  // The stack is shown for the levels that need attention.
  const stack = Number(level) >= 50 && error?.stack ? framesOf(error.stack).map(frame => paint(`    ${frame}`, 90)) : []
  return `${[parts.join(' ').trimEnd(), ...stack].join('\n')}\n`
}

/** The time of day in the local time zone. */
function clock(time: unknown): string {
  const date = new Date(typeof time === 'number' ? time : Date.now())
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map(part => `${part}`.padStart(2, '0')).join(':')
}

function textOf(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  const short = plain(text.length > MAX_VALUE ? `${text.slice(0, MAX_VALUE)}…` : text)
  return typeof value === 'string' && (short === '' || short.includes(' ')) ? `"${short}"` : short
}

const framesOf = (stack: string): string[] =>
  stack
    .split('\n')
    .filter(line => /^\s+at /.test(line))
    .slice(0, MAX_STACK)
    .map(line => plain(line.trim()))

const plain = (text: string): string =>
  text.replace(/[\x00-\x1f\x7f-\x9f]/g, char =>
    char === '\n' ? '\\n' : `\\x${char.charCodeAt(0).toString(16).padStart(2, '0')}`,
  )
