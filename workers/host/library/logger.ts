/**
 * The logger that `getLogger()` of the SDK finds in a global (it has the methods of winston): lines on stdout, errors and
 * warnings on stderr, with the run and the node that writes. It must be registered before the first file of the
 * application is imported, because modules call it at their top level.
 */
import { inspect } from 'node:util'
import { isObject, type JsonObject } from '../../../schemas/json.js'

const GLOBAL_LOGGER = Symbol.for('langgraph.api.sdk-logger')

/** Method → the least LOG_LEVEL that shows its lines. */
const METHODS = {
  error: 'error',
  warn: 'warn',
  help: 'info',
  data: 'info',
  info: 'info',
  prompt: 'info',
  http: 'info',
  input: 'info',
  verbose: 'debug',
  debug: 'debug',
  silly: 'debug',
} as const
const LEVELS = ['silent', 'error', 'warn', 'info', 'debug']

type Method = keyof typeof METHODS
type Logger = { [name in Method]: (message: unknown, ...more: unknown[]) => Logger }

/** `configOf`: the config of the node that runs now, undefined outside of one; `level`: LOG_LEVEL. */
export function registerLogger(configOf: () => unknown, level = 'info'): void {
  const shown = LEVELS.indexOf(level)
  const logger = Object.fromEntries(
    Object.entries(METHODS).map(([method, least]) => [
      method,
      (...parts: unknown[]) => {
        if (LEVELS.indexOf(least) > shown) return logger
        const line = `[${method}] ${parts.map(textOf).join(' ')}${writerOf(configOf)}`
        if (least === 'error' || least === 'warn') console.error(line)
        else console.log(line)
        return logger
      },
    ]),
  ) as Logger
  Object.defineProperty(globalThis, GLOBAL_LOGGER, { value: logger, configurable: true })
}

/** An object with a `message` is one of winston's info objects. */
function textOf(part: unknown): string {
  if (typeof part === 'string') return part
  if (part instanceof Error || !isObject(part)) return inspect(part)
  const { message, level: _, ...meta } = part as JsonObject
  const rest = Object.keys(meta).length === 0 ? '' : inspect(meta, { breakLength: Number.POSITIVE_INFINITY })
  return typeof message === 'string' ? `${message}${rest === '' ? '' : ` ${rest}`}` : rest
}

function writerOf(configOf: () => unknown): string {
  try {
    const { metadata, configurable } = configOf() as { metadata?: JsonObject; configurable?: JsonObject }
    const { graph_id, langgraph_node: node, run_id } = { ...configurable, ...metadata } as JsonObject
    const known = Object.entries({ graph_id, node, run_id }).filter(([, value]) => typeof value === 'string')
    return known.length === 0 ? '' : ` (${known.map(([name, value]) => `${name} ${value}`).join(', ')})`
  } catch {
    return ''
  }
}
