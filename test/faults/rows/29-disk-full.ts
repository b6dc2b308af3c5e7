import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../helpers/until.js'
import { checkAll } from '../harness/checks.js'
import { type Load, startLoad } from '../harness/load.js'
import type { Row } from '../harness/row.js'
import { type SmallDisks, startOnSmallDisks, whyNoMount } from '../harness/small-disk.js'
import type { Stage } from '../harness/stage.js'

const DISK_MB = 64
/** From the moment that there is space to a created run and a ready edge. */
const BACK_MS = 10_000
/** New runs are refused on a disk that is so full; the settings of a small disk begin at nine tenths. */
const ALMOST = 0.93
/** Runs that must end on it, and how long they have. */
const LAST = 20
const ENDED_MS = 20_000
/** The worker looks each second. */
const LOOKED_MS = 2_500

export const row: Row = {
  number: 29,
  name: 'Disks full in turn',
  fault: `The disk of the broker (${DISK_MB} MB), then that of the embedded store, is filled to its last byte, and freed; then that of the store is filled to ${ALMOST * 100} %. With MongoDB only that of the broker: the disk of a database is its operator's.`,
  promised: `On a disk that is almost full new runs are refused with 503, those which exist end and other calls are answered. No accepted run is lost, no process ends; calls are answered 2xx or 503, and 2xx within ${BACK_MS / 1_000} s after space is freed.`,
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
    const works = async () => {
      const { outcome } = await stage.ledger.call({ url, path: '/threads', body: {}, timeout: 5_000 })
      return outcome === 'ok' && (await fetch(`${url}/ready`)).status === 200
    }
    const backs: { [disk: string]: number } = {}
    const refused: { [disk: string]: number } = {}
    const isEmbedded = stage.store === 'sqlite'
    for (const disk of isEmbedded ? (['broker', 'store'] as const) : (['broker'] as const)) {
      await sleep(3_000)
      const before = stage.ledger.count('fail')
      disks.fill(disk)
      await sleep(seconds * 1_000)
      refused[disk] = stage.ledger.count('fail') - before
      disks.free(disk)
      const since = performance.now()
      await until(works, 60_000).catch(() =>
        stage.expect(false, `nothing works 60 s after the disk of the ${disk} has space`),
      )
      backs[disk] = performance.now() - since
      stage.expect(
        backs[disk] <= BACK_MS,
        `2xx ${(backs[disk] / 1_000).toFixed(1)} s after the disk of the ${disk} had space`,
      )
    }
    const almost = isEmbedded ? await almostFull(stage, disks, load, url) : null
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
        `${success} of ${load.items.length} accepted runs succeeded; ` +
        Object.keys(backs)
          .map(
            disk =>
              `${refused[disk]} calls were refused while the disk of the ${disk} was full, 2xx after ${secs(backs[disk]!)}`,
          )
          .join('; ') +
        (almost === null
          ? ''
          : `; ${almost.refused} new runs were refused while the store's disk was almost full, and accepted again ` +
            `${secs(almost.back)} after it had space`),
    }
  },
}

const secs = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`

/** Fills the disk of the store almost, and looks at what is refused, what goes on, and what comes back. */
async function almostFull(
  { ledger, expect }: Stage,
  disks: SmallDisks,
  load: Load,
  url: string,
): Promise<{ refused: number; back: number }> {
  const create = () => ledger.call({ url, path: '/runs', body: { assistant_id: 'other', input: {} } })
  const before = ledger.count('fail')
  disks.fill('store', ALMOST)
  await sleep(LOOKED_MS)
  const { status, retryAfter } = await create()
  expect(status === 503 && retryAfter !== null, `a new run on an almost full disk was answered ${status}`)
  const open = load.accepted().slice(-LAST)
  const areEnded = async () => {
    const statuses = await Promise.all(
      open.map(async ({ thread_id, run_id }) => {
        const { body } = await ledger.call({ url, method: 'GET', path: `/threads/${thread_id}/runs/${run_id}` })
        return body?.status
      }),
    )
    return statuses.every(one => one === 'success')
  }
  await until(areEnded, ENDED_MS).catch(() => expect(false, 'runs did not end on an almost full disk'))
  const thread = await ledger.call({ url, path: '/threads', body: {} })
  expect(thread.outcome === 'ok', `a new thread on an almost full disk was answered ${thread.status}`)
  const refused = ledger.count('fail') - before
  disks.free('store')
  const since = performance.now()
  await until(async () => (await create()).outcome === 'ok', BACK_MS).catch(() =>
    expect(false, `new runs are refused ${BACK_MS / 1_000} s after the disk had space`),
  )
  return { refused, back: performance.now() - since }
}
