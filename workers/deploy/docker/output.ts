/** The output of containers as lines of a revision's log, without its secrets. */
import { PassThrough, type Readable } from 'node:stream'
import type Docker from 'dockerode'
import { openRedactor, type Redactor } from '../../../schemas/redact.js'
import type { RevisionLog, Say } from '../log.js'
import { lines, parseLogLine } from '../output-lines.js'
import type { ReplicaPlan } from './container.js'

export const redactorOf = ({ env }: ReplicaPlan): Redactor => openRedactor(Object.values(env))

export interface Outputs {
  has(id: string): boolean
  /** Writes the output of this main container from now on to the runtime log of its revision. */
  follow(id: string, plan: ReplicaPlan): void
  end(id: string): void
  close(): void
}

export function openOutputs(engine: Docker, logOf: (plan: ReplicaPlan) => RevisionLog): Outputs {
  const followed = new Map<string, () => void>()
  function end(id: string): void {
    followed.get(id)?.()
    followed.delete(id)
  }
  return {
    has: id => followed.has(id),
    follow(id, plan) {
      end(id)
      const since = Math.floor(Date.now() / 1_000)
      const to = { redactor: redactorOf(plan), say: logOf(plan).of('runtime') }
      followed.set(id, followOutput(engine, id, { since, ...to }))
    },
    end,
    close() {
      for (const stop of followed.values()) stop()
    },
  }
}

/**
 * Follows the output from now on (`since`: seconds since the epoch), until the container exits. Returns how to stop.
 * Output that cannot be read is no failure of the container.
 */
function followOutput(
  engine: Docker,
  id: string,
  { since, redactor, say }: { since: number; redactor: Redactor; say: Say },
): () => void {
  const stop = new AbortController()
  void (async () => {
    const stream = (await engine.getContainer(id).logs({
      follow: true,
      stdout: true,
      stderr: true,
      since,
      abortSignal: stop.signal,
    } as object & {
      follow: true
    })) as unknown as Readable
    stop.signal.addEventListener('abort', () => stream.destroy(), { once: true })
    const [out, err] = [new PassThrough(), new PassThrough()]
    const flush = [
      lines(out, redactor, text => say('INFO', text)),
      lines(err, redactor, text => say(...parseLogLine(text))),
    ]
    engine.modem.demuxStream(stream, out, err)
    stream.once('error', () => {})
    stream.once('close', () => {
      for (const each of flush) each()
    })
  })().catch(() => {})
  return () => stop.abort()
}

/** The end of its output: what a container that has exited said last. */
export async function lastOutput(engine: Docker, id: string, redactor: Redactor, tail = 20): Promise<string[]> {
  const bytes = await engine
    .getContainer(id)
    .logs({ follow: false, stdout: true, stderr: true, tail })
    .catch(() => Buffer.alloc(0))
  return readFrames(bytes)
    .split('\n')
    .map(line => redactor.redact(line).trim())
    .filter(line => line !== '')
}

/** Frames of the engine: a byte for the stream, three of padding, four of length, the text. */
function readFrames(bytes: Buffer): string {
  let text = ''
  for (let at = 0; at + 8 <= bytes.length; ) {
    const length = bytes.readUInt32BE(at + 4)
    text += bytes.toString('utf8', at + 8, at + 8 + length)
    at += 8 + length
  }
  return text
}
