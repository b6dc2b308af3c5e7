/**
 * The newest log lines of a graph worker: what its hosts wrote, and its own warnings and errors. They are kept as they come,
 * which costs an entry in a list; they are cleaned, read and searched when somebody asks.
 */
import { stripVTControlCharacters } from 'node:util'
import { LOG_LEVELS, type LogLevel, type LogQuery, type WorkerLine } from '../../schemas/trace.js'

/** The limits of one worker. */
const MAX_LINES = 10_000
const MAX_CHARS = 4 * 1024 * 1024
const MAX_AGE_MS = 60 * 60 * 1000
/** Bytes of one answer, which is one message: its JSON text has at most twice as many. */
const MAX_ANSWER = 400_000
const MEMBERS = 300
const MAX_TEXT = 8_000
const MAX_GRAPH = 512

/** The run that wrote a line. */
export interface LineRun {
  run_id: string
  thread_id: string
  graph_id: string
}

/** A line before it is read. */
export interface RawLine {
  stream: WorkerLine['stream']
  process: string
  text: string
  run: LineRun | null
}

export interface LogRing {
  add(line: RawLine): void
  /** The newest lines that match, the oldest first. */
  find(query: LogQuery): WorkerLine[]
}

type Entry = RawLine & Pick<WorkerLine, 'id' | 'time'>

export function openLogRing(now: () => number = Date.now): LogRing {
  /** Line n is at n modulo its length. */
  const entries: (Entry | undefined)[] = []
  /** The lines from `first` on are kept; `next` is the number of the next one. */
  let first = 0
  let next = 0
  let chars = 0

  const at = (n: number): Entry => entries[n % MAX_LINES]!

  function dropOldest(): void {
    chars -= at(first).text.length
    entries[first % MAX_LINES] = undefined
    first++
  }

  return {
    add({ stream, process, text, run }) {
      chars += text.length
      while (first < next && (next - first === MAX_LINES || chars > MAX_CHARS)) dropOldest()
      entries[next % MAX_LINES] = { id: next, time: now(), stream, process, text, run }
      next++
    },
    find({ run_id, text = '', level = 'debug', limit }) {
      const since = now() - MAX_AGE_MS
      while (first < next && at(first).time < since) dropOldest()
      const part = text.toLowerCase()
      const least = LOG_LEVELS.indexOf(level)
      const found: WorkerLine[] = []
      let size = 0
      for (let n = next - 1; n >= first && found.length < limit && size < MAX_ANSWER; n--) {
        const entry = at(n)
        // Output names its run; an entry of the worker has it in its text.
        if (run_id !== undefined && entry.stream !== 'log' && entry.run?.run_id !== run_id) continue
        const line = read(entry)
        if (line.text === '' || (run_id !== undefined && line.run_id !== run_id)) continue
        if (LOG_LEVELS.indexOf(line.level) < least || !line.text.toLowerCase().includes(part)) continue
        found.push(line)
        size += Buffer.byteLength(line.text) + MEMBERS
      }
      return found.reverse()
    },
  }
}

/** A line in JSON: of pino, structlog, or the logging of LangGraph's servers. */
interface Structured {
  level?: unknown
  levelname?: unknown
  severity?: unknown
  msg?: unknown
  message?: unknown
  event?: unknown
  err?: { stack?: unknown; type?: unknown; message?: unknown }
  run_id?: unknown
  thread_id?: unknown
  graph_id?: unknown
}

function read({ id, time, stream, process, text, run }: Entry): WorkerLine {
  const json = structureOf(text)
  const level = levelOf(json, text) ?? (stream === 'stdout' ? 'info' : 'warn')
  const own = stream === 'log' ? json : null
  const { run_id, thread_id, graph_id } = run ?? own ?? {}
  return {
    id,
    time,
    level,
    stream,
    process,
    text: clean(own === null ? text : sentenceOf(own)).slice(0, MAX_TEXT),
    run_id: idOf(run_id),
    thread_id: idOf(thread_id),
    graph_id: typeof graph_id === 'string' ? graph_id.slice(0, MAX_GRAPH) : null,
  }
}

const idOf = (id: unknown): string | null => (typeof id === 'string' && id.length <= 64 ? id : null)

function structureOf(text: string): Structured | null {
  if (!text.startsWith('{')) return null
  try {
    return JSON.parse(text) as Structured
  } catch {
    return null
  }
}

/** The message of an entry of this worker, its stack, and what else it says. */
function sentenceOf(entry: Structured): string {
  const { level, time, pid, name, msg, err, run_id, thread_id, graph_id, assistant_id, ...rest } = entry as {
    [member: string]: unknown
  }
  const { stack, type, message } = (err ?? {}) as NonNullable<Structured['err']>
  const more = Object.entries(rest).filter(([, value]) => value !== null)
  const facts = more.map(([member, value]) => `${member}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
  const why = typeof stack === 'string' ? `\n${stack}` : message === undefined ? '' : `\n${type}: ${message}`
  return `${[msg, ...facts].join(' ')}${why}`
}

const NAMES = new Map<string, LogLevel>([
  ['trace', 'debug'],
  ['debug', 'debug'],
  ['info', 'info'],
  ['information', 'info'],
  ['notice', 'info'],
  ['warn', 'warn'],
  ['warning', 'warn'],
  ['error', 'error'],
  ['err', 'error'],
  ['critical', 'error'],
  ['fatal', 'error'],
])
/** `ERROR:root:…`, `[error] …`, `2026-03-01 12:00:00,000 - name - ERROR - …`, `INFO:     …`. */
const NAMED = /^(?:[\d\s:.,TZ+-]*\[?)(?:[\w.]+ - )?(trace|debug|info|notice|warn|warning|error|critical|fatal)\b/i
/** How errors without a level begin. */
const THROWN = /^(?:Traceback \(most recent call last\)|(?:Uncaught |Unhandled )|[\w.]*(?:Error|Exception)\b)/

function levelOf(json: Structured | null, text: string): LogLevel | null {
  const given = json?.level ?? json?.levelname ?? json?.severity
  if (typeof given === 'number') return given >= 50 ? 'error' : given >= 40 ? 'warn' : given >= 30 ? 'info' : 'debug'
  const named = typeof given === 'string' ? given : NAMED.exec(text)?.[1]
  return NAMES.get(named?.toLowerCase() ?? '') ?? (THROWN.test(text) ? 'error' : null)
}

/** Without colours and control characters: a line is shown to a person. */
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g
const clean = (text: string): string => stripVTControlCharacters(text).replace(CONTROLS, '')
