/**
 * The engines of images in tests of a whole cluster: an engine or a cluster of the tests, whose containers are real `weft graphs`
 * with the environment that the driver gave them; or real ones. The image `<name>:<word>` has the application of the word.
 */
import { join } from 'node:path'
import { freePort } from '../../cli/ports.js'
import { startDockerdWith } from './docker/dockerd.js'
import { startEngine } from './docker/engine.js'
import { startPodman } from './docker/podman.js'
import { startImageWorker } from './image-worker.js'
import { startApiServer } from './kubernetes/api-server.js'
import { application, writeFiles } from './repository.js'

export interface TestEngine {
  /** For the roles. */
  env: { [name: string]: string }
  imageOf(word: string): string
  /** An image that nobody has. */
  unknown: string
  /** Graph workers that run; null when they cannot be counted. */
  running(): number | null
  /** kill -9 of all of them, where that is possible. */
  kill?(): void
  close(): Promise<void>
}

/** `docker` and `kubernetes` are imitations. */
export type EngineKind = 'docker' | 'dockerd' | 'podman' | 'kubernetes'
const UNKNOWN = 'registry.invalid/none:1'

/** `folder`: for the applications of the words. A real engine has images with these words as tags. */
export async function startTestEngine(kind: EngineKind, folder: string, words: readonly string[]): Promise<TestEngine> {
  const env = { WEFT_IMAGE_DRIVER: kind === 'kubernetes' ? kind : 'docker', WEFT_DOCKER_NETWORK: 'host' }
  const { WEFT_TEST_IMAGE: real, WEFT_TEST_KUBECONFIG, WEFT_TEST_DOCKER_HOST } = process.env
  const name = real ?? 'registry.test/app'
  const imageOf = (word: string) => `${name}:${word}`
  if (real !== undefined) {
    const address = { DOCKER_HOST: WEFT_TEST_DOCKER_HOST ?? '', KUBECONFIG: WEFT_TEST_KUBECONFIG ?? '' }
    return { env: { ...env, ...address }, imageOf, unknown: UNKNOWN, running: () => null, close: async () => {} }
  }
  for (const word of words) writeFiles(join(folder, word), application(word))
  if (kind === 'podman' || kind === 'dockerd') {
    const start = kind === 'podman' ? startPodman : startDockerdWith
    const { host, ...engine } = await start(Object.fromEntries(words.map(word => [word, join(folder, word)])))
    return { env: { ...env, DOCKER_HOST: host }, ...engine }
  }
  const images = <T>(of: (app: string) => T) =>
    Object.fromEntries(words.map(word => [imageOf(word), of(join(folder, word))]))
  if (kind === 'docker') {
    const engine = await startEngine(
      images(app => ({
        program: ({ env, say, exit }) => startImageWorker({ app, env, onOutput: say, onExit: exit }),
      })),
    )
    return {
      env: { ...env, DOCKER_HOST: engine.host },
      imageOf,
      unknown: UNKNOWN,
      running: () => engine.running().length,
      close: () => engine.close(),
    }
  }
  const cluster = await startApiServer(
    images(app => ({ env, say, exit, ready }) => {
      let send: ((signal: string) => void) | null = null
      let probing: NodeJS.Timeout
      void freePort().then(port => {
        send = startImageWorker({
          app,
          // Pods of the tests share one network.
          env: { ...env, WEFT_HEALTH_PORT: String(port) },
          onOutput: say,
          onExit(code) {
            clearInterval(probing)
            exit(code)
          },
        })
        const probe = () =>
          fetch(`http://127.0.0.1:${port}/ok`).then(
            ({ ok }) => ready(ok),
            () => ready(false),
          )
        probing = setInterval(probe, 200)
      })
      return signal => send?.(signal)
    }),
  )
  return {
    env: { ...env, KUBECONFIG: cluster.access().kubeconfig },
    imageOf,
    unknown: UNKNOWN,
    running: () => cluster.nodes.running().length,
    close: () => cluster.close(),
  }
}
