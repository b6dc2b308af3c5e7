import { setTimeout as sleep } from 'node:timers/promises'
import type { Proc } from '../../helpers/cluster.js'
import { clockEnv, EARLY_MS, SKEW_MS, saysSo, underSkew } from '../clock-skew.js'
import { CRON_ENV } from '../harness/crons.js'
import type { Row } from '../harness/row.js'

export const row: Row = {
  number: 24,
  name: 'Clock skew',
  fault:
    'The clocks of a graph worker and of resource workers are ten minutes ahead or behind (PostgreSQL, MongoDB: two of three resource ' +
    'workers; SQLite: the only one, until it is started again).',
  promised:
    'No delayed run and no cron starts more than a second early, no live run is taken over. The difference is in `/metrics` and in the log. A ' +
    'resource worker with a wrong clock fires nothing; the others do.',
  async run(stage) {
    const seconds = stage.size(10, 20, 300)
    const delayed = stage.size(30, 200)
    const roles = await stage.roles({ graphs: 1, edges: 1, env: CRON_ENV })
    await roles.add('graphs', undefined, clockEnv(SKEW_MS))
    const skewed: Proc[] = []
    if (stage.store !== 'sqlite') {
      skewed.push(await roles.add('resources', undefined, clockEnv(SKEW_MS)))
      const [, second] = roles.resources
      await second!.stop()
      skewed.push(await roles.add('resources', undefined, clockEnv(-SKEW_MS)))
    } else {
      await roles.resources[0]!.stop()
      skewed.push(await roles.add('resources', undefined, clockEnv(-SKEW_MS)))
    }
    const restart = async () => {
      if (stage.store !== 'sqlite') return
      await sleep(seconds * 1_000 + 5_000)
      await skewed[0]!.stop()
      roles.resources[0] = await roles.add('resources')
    }
    const [found] = await Promise.all([underSkew(roles, { delayed, running: 8, seconds }), restart()])
    stage.expect(found.earliest > -EARLY_MS, `a delayed run started ${Math.round(-found.earliest)} ms before its time`)
    stage.expect(found.repeated === 0, `${found.repeated} live runs were taken over`)
    stage.expect(found.earlyFiring === 0, `a cron fired ${found.earlyFiring} ms before its time`)
    stage.expect(found.firings > 0, 'no cron fired')
    stage.expect(skewed.every(saysSo), 'a worker with a wrong clock does not log it')
    const off = found.metrics.filter(value => Math.abs(Math.abs(value) * 1_000 - SKEW_MS) < 2_000)
    if (stage.store !== 'sqlite') stage.expect(off.length === 2, `/metrics has ${found.metrics.map(Math.round)}`)
    return {
      load: `${delayed} delayed runs, ${found.running} running ones and a cron, for ${seconds} s`,
      measured:
        `delayed runs started ${Math.round(found.earliest)} to ${Math.round(found.latest)} ms after their time; ` +
        `${found.repeated} taken over; ${found.firings} latest firings, none early; clocks ahead of the broker's by ` +
        `${found.metrics.map(Math.round).join(', ')} s`,
    }
  },
}
