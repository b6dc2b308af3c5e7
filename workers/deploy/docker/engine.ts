/** The Docker Engine API by dockerode, which is loaded only when this driver is selected: its modules take 0.6 s. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type Docker from 'dockerode'
import type { AuthConfig, ContainerInfo, ImageInspectInfo } from 'dockerode'
import type { Log } from '../../../bus/log.js'
import type { Config } from '../../../schemas/config.js'
import { Fault, throwIfStopped } from '../fault.js'
import { LABEL, MANAGER } from './container.js'

/** A client of the engine that DOCKER_HOST names. Throws one sentence when dockerode is not installed. */
export async function openEngine(config: Pick<Config, 'docker_host' | 'docker_certs'>): Promise<Docker> {
  const { default: Client } = await import('dockerode').catch(() => {
    throw new Error('WEFT_IMAGE_DRIVER is docker, but dockerode is not installed: npm install dockerode@5')
  })
  const { docker_host, docker_certs } = config
  if (docker_host.startsWith('unix://')) return new Client({ socketPath: docker_host.slice('unix://'.length) })
  const url = URL.canParse(docker_host) ? new URL(docker_host) : null
  if (url === null || !/^(tcp|https?):$/.test(url.protocol))
    throw new Error(`DOCKER_HOST must begin with unix:// or tcp://, not "${docker_host}"`)
  const file = (name: string) => readFileSync(join(docker_certs, name))
  return new Client({
    host: url.hostname,
    port: Number(url.port || (docker_certs === '' ? 2375 : 2376)),
    protocol: docker_certs === '' && url.protocol !== 'https:' ? 'http' : 'https',
    ...(docker_certs === '' ? {} : { ca: file('ca.pem'), cert: file('cert.pem'), key: file('key.pem') }),
  })
}

interface EngineError extends Error {
  statusCode?: number
  code?: string
  reason?: string
  json?: { message?: string } | null
}

const messageOf = (error: unknown): string => {
  const { json, message } = error as EngineError
  return (json?.message ?? message).replace(/\s+/g, ' ').trim()
}

/** An answer of the engine with this status; null for another one. */
export const statusOf = (error: unknown): number | null => (error as EngineError).statusCode ?? null

/** The failure as a Fault: a retry may succeed when the engine did not answer, or answered 5xx. */
export function faultOf(stage: string, error: unknown): Error {
  if (error instanceof Fault || (error as Error).name === 'Stopped') return error as Error
  const { statusCode, code } = error as EngineError
  if (statusCode === undefined && code !== undefined)
    return new Fault(`${stage}: the Docker Engine does not answer (${code}); DOCKER_HOST names it`, true)
  return new Fault(`${stage}: ${messageOf(error)}`, statusCode !== undefined && statusCode >= 500)
}

/** Null instead of 404. */
export async function unlessMissing<T>(work: Promise<T>): Promise<T | null> {
  return work.catch(error => {
    if (statusOf(error) === 404) return null
    throw error
  })
}

/** Ignores 404 (there is none), 304 (it is so already) and 409 (it is being done). */
export async function ensure(work: Promise<unknown>): Promise<void> {
  await work.catch(error => {
    if (![304, 404, 409].includes(statusOf(error) ?? 0)) throw error
  })
}

/** All our containers with these labels, also those that do not run. */
export function listContainers(engine: Docker, labels: { [name: string]: string } = {}): Promise<ContainerInfo[]> {
  const wanted = Object.entries({ [LABEL.manager]: MANAGER, ...labels }).map(([name, value]) => `${name}=${value}`)
  return engine.listContainers({ all: true, filters: JSON.stringify({ label: wanted }) })
}

/** Messages of errors that a retry does not change. */
const FINAL =
  /not found|unknown|unauthorized|denied|forbidden|no matching manifest|invalid reference|authentication|is blocked in/i

/**
 * Pulls the image and reports its progress. The engine answers 200 before it pulls: errors are lines of the stream.
 * Throws a Fault or Stopped.
 */
export async function pullImage(
  engine: Docker,
  image: string,
  authconfig: AuthConfig | undefined,
  say: (line: string) => void,
  signal: AbortSignal,
): Promise<void> {
  throwIfStopped(signal)
  const stream = (await engine
    .pull(image, { ...(authconfig === undefined ? {} : { authconfig }), abortSignal: signal })
    .catch(error => {
      throwIfStopped(signal)
      throw pullFault(image, error)
    })) as Readable
  const stop = () => void stream.destroy()
  signal.addEventListener('abort', stop, { once: true })
  let failure: string | null = null
  try {
    for await (const text of createInterface({ input: stream })) {
      const { id, status, error } = parseLine(text)
      if (error !== undefined) failure = error
      // Not the progress of each layer.
      else if (status !== undefined && (id === undefined || /complete|exists|^Pulling from/i.test(status)))
        say(`image pull: ${id === undefined ? '' : `${id}: `}${status}`)
    }
  } catch (error) {
    throwIfStopped(signal)
    throw new Fault(`image pull: ${image}: the engine closed the stream: ${(error as Error).message}`, true)
  } finally {
    signal.removeEventListener('abort', stop)
  }
  throwIfStopped(signal)
  if (failure !== null) throw new Fault(`image pull: ${image}: ${failure}`, !FINAL.test(failure))
}

function pullFault(image: string, error: unknown): Error {
  const status = statusOf(error)
  if (status === null || FINAL.test(messageOf(error)) || (status < 500 && status !== 429)) {
    const fault = faultOf('image pull', error)
    return status === null ? fault : new Fault(`image pull: ${image}: ${messageOf(error)}`)
  }
  return new Fault(`image pull: ${image}: ${messageOf(error)}`, true)
}

function parseLine(text: string): { id?: string; status?: string; error?: string } {
  try {
    return JSON.parse(text) as { id?: string; status?: string; error?: string }
  } catch {
    return {}
  }
}

export const inspectImage = (engine: Docker, image: string): Promise<ImageInspectInfo | null> =>
  unlessMissing(engine.getImage(image).inspect())

/** `die`, `oom`, `start`, `health_status: …`. */
export interface EngineEvent {
  action: string
  id: string
  labels: { [name: string]: string }
  exit_code: number | null
}

const RECONNECT_MS = [500, 1_000, 2_000, 5_000, 10_000]

/**
 * Follows the events of our containers, over restarts of the engine. `onOpen`: events before it may be missing.
 * Returns how to stop.
 */
export function followEvents(
  engine: Docker,
  log: Log,
  { onOpen, onEvent }: { onOpen(): void; onEvent(event: EngineEvent): void },
): () => void {
  const stop = new AbortController()
  const filters = JSON.stringify({ type: ['container'], label: [`${LABEL.manager}=${MANAGER}`] })
  async function follow(): Promise<void> {
    for (let n = 0; !stop.signal.aborted; n++) {
      try {
        const stream = (await engine.getEvents({ filters, abortSignal: stop.signal } as object)) as Readable
        stop.signal.addEventListener('abort', () => stream.destroy(), { once: true })
        n = 0
        onOpen()
        for await (const text of createInterface({ input: stream })) {
          const event = readEvent(text)
          if (event !== null) onEvent(event)
        }
      } catch (error) {
        if (!stop.signal.aborted) log.warn({ err: error }, 'the events of the Docker Engine cannot be followed')
      }
      if (!stop.signal.aborted)
        await sleep(RECONNECT_MS[Math.min(n, RECONNECT_MS.length - 1)], undefined, { signal: stop.signal }).catch(
          () => {},
        )
    }
  }
  void follow()
  return () => stop.abort()
}

function readEvent(text: string): EngineEvent | null {
  try {
    const { Action, Actor } = JSON.parse(text) as {
      Action: string
      Actor: { ID: string; Attributes: EngineEvent['labels'] }
    }
    const code = Number(Actor.Attributes.exitCode)
    return {
      action: Action,
      id: Actor.ID,
      labels: Actor.Attributes,
      exit_code: Number.isInteger(code) && Actor.Attributes.exitCode !== undefined ? code : null,
    }
  } catch {
    return null
  }
}
