import { setTimeout as sleep } from 'node:timers/promises'
import { CRON_ENV, checkCrons, makeCrons } from '../harness/crons.js'
import type { Row } from '../harness/row.js'

const EVERY_MS = 5_000

export const row: Row = {
  number: 23,
  name: 'One run per time of a cron',
  fault:
    'kill -9 of one of the resource workers (four with MongoDB, one with SQLite) every 20 s, and of a graph worker.',
  promised: 'Each time of each cron has one run; a time that was missed is declared by the next run.',
  async run(stage) {
    const resources = stage.store === 'sqlite' ? 1 : 4
    const roles = await stage.roles({ resources, graphs: 2, edges: 1, env: { ...CRON_ENV, N_JOBS_PER_WORKER: '100' } })
    const count = stage.size(20, 100, 200)
    const every = stage.size(7_000, 20_000)
    const crons = await makeCrons(stage, roles.urls[0]!, count, EVERY_MS, stage.size(5, 10, 120))
    let kills = 0
    while (Date.now() + every < crons.end) {
      await sleep(every)
      await stage.replace(roles, 'resources', kills % resources, 200)
      if (kills++ % 2 === 1) await stage.replace(roles, 'graphs', 0)
    }
    await sleep(Math.max(0, crons.end - Date.now()))
    const { slots, runs, skipped } = await checkCrons(stage, roles.urls[0]!, crons)
    stage.expect(runs > 0, 'no cron has fired')
    await stage.noChildLeft()
    return {
      load: `${count} crons every ${EVERY_MS / 1_000} s, ${resources} resource workers; ${kills} kills, one every ${every / 1_000} s`,
      measured: `${runs} runs of ${slots} times, ${skipped} missed and declared`,
    }
  },
}
