/** Docker drivers for tests of them alone: on an engine, without a broker and a control plane. */
import type { Test } from 'tap'
import { openFigures } from '../../../bus/figures.js'
import { openLog } from '../../../bus/log.js'
import { readConfig } from '../../../schemas/config.js'
import { openDockerDriver } from '../../../workers/deploy/docker/driver.js'
import { openEngine } from '../../../workers/deploy/docker/engine.js'
import type { Driver } from '../../../workers/deploy/driver.js'
import { type openTestBeats, SECRET } from '../image-tasks.js'

const log = openLog('test', process.env.WEFT_TEST_LOG ?? 'silent')

type TestBeats = ReturnType<typeof openTestBeats>

export interface TestDrivers {
  beat: TestBeats['beat']
  /** Lines that replicas have written. */
  lines: string[]
  /** Pools that were retired. */
  retired: string[]
  /** A deploy worker: each has its own memory. */
  open(): Promise<Driver>
}

interface TestDriversOptions extends TestBeats {
  host: string
  settings?: object
}

export function openTestDrivers(t: Test, { host, beats, beat, settings }: TestDriversOptions): TestDrivers {
  const lines: string[] = []
  const retired: string[] = []
  const drivers: Driver[] = []
  t.teardown(async () => {
    for (const driver of drivers) await driver.stop(10)
    beats.close()
  })
  const say = (_: string, line: string) => void lines.push(line)
  const config = readConfig(
    {},
    { deploy_stable_ms: 20, stop_ms: 200, drain_ms: 500, docker_host: host, image_labels: 'team', ...settings },
  )
  return {
    beat,
    lines,
    retired,
    async open() {
      const driver = openDockerDriver({
        engine: await openEngine(config),
        config,
        nats_url: 'nats://graphs:password@broker.test:4222',
        server: 'https://weft.test',
        beats,
        log,
        figures: openFigures(),
        logOf: () => ({ of: () => say, flush: async () => {} }),
        env: async () => ({
          env: { TOKEN: SECRET },
          env_version: 's1',
          pool_user: { user: 'app.pool', password: 'a password' },
        }),
        retire: async pool => void retired.push(pool),
        pull_pauses_ms: [1, 1],
      })
      drivers.push(driver)
      return driver
    },
  }
}
