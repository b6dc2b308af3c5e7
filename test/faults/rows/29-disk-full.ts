import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../helpers/until.js'
import { checkAll } from '../harness/checks.js'
import { startLoad } from '../harness/load.js'
import type { Row } from '../harness/row.js'
import { type SmallDisks, startOnSmallDisks, whyNoMount } from '../harness/small-disk.js'

const DISK_MB = 64
/** From the moment that there is space to a created run and a ready edge. */
const BACK_MS = 10_000

export const row: Row = {
  number: 29,
  name: 'Disks full in turn',
  fault: `The disk of the broker (${DISK_MB} MB), then that of the embedded store, is filled to its last byte, and freed.`,
  promised: `No accepted run is lost, no process ends; calls are answered 2xx or 503, and 2xx within ${BACK_MS / 1_000} s after space is freed.`,
  oneStore: 'the disk of MongoDB is its own affair',
  async run(stage) {
    const why = whyNoMount()
    if (why !== null) {
      stage.expect(false, why)
      return { load: 'none', measured: 'not executed' }
    }
    let disks!: SmallDisks
    const roles = await stage.roles({
      broker: async () => (disks = await startOnSmallDisks(DISK_MB)),
      env: { WEFT_MAX_FILE_STORE: `${64 * 1024 * 1024}` },
    })
    const seconds = stage.size(8, 20, 60)
    const load = startLoad(stage, { urls: () => roles.urls, perSecond: 10, steps: 4, ms: 100, events: 3 })
    const url = roles.urls[0]!
    const backs: { [disk: string]: number } = {}
    const refused: { [disk: string]: number } = {}
    for (const disk of ['broker', 'store'] as const) {
      await sleep(3_000)
      const before = stage.ledger.count('fail')
      disks.fill(disk)
      await sleep(seconds * 1_000)
      refused[disk] = stage.ledger.count('fail') - before
      disks.free(disk)
      const since = performance.now()
      const works = async () => {
        const { outcome } = await stage.ledger.call({ url, path: '/threads', body: {}, timeout: 5_000 })
        return outcome === 'ok' && (await fetch(`${url}/ready`)).status === 200
      }
      await until(works, 60_000).catch(() =>
        stage.expect(false, `nothing works 60 s after the disk of the ${disk} has space`),
      )
      backs[disk] = performance.now() - since
      stage.expect(
        backs[disk] <= BACK_MS,
        `2xx ${(backs[disk] / 1_000).toFixed(1)} s after the disk of the ${disk} had space`,
      )
    }
    await sleep(1_000)
    await checkAll(stage, roles, load, { losesEvents: true })
    const ended = [...roles.edges, ...roles.resources, ...roles.graphs].filter(({ child }) => child.exitCode !== null)
    stage.expect(ended.length === 0, `${ended.length} processes ended`)
    stage.expect(disks.isUp(), 'the NATS server ended')
    const foreign = [...stage.ledger.refused()].filter(status => status !== 503)
    stage.expect(foreign.length === 0, `calls were refused with ${foreign}`)
    const success = load.items.filter(({ status }) => status === 'success').length
    return {
      load: `${load.items.length} runs at 10 a second; each disk was full for ${seconds} s`,
      measured:
        `${success} of ${load.items.length} accepted runs succeeded; ${refused.broker} calls were refused while the broker's disk was full, ` +
        `${refused.store} while the store's was; 2xx after ${(backs.broker! / 1_000).toFixed(1)} s and ${(backs.store! / 1_000).toFixed(1)} s`,
    }
  },
}
