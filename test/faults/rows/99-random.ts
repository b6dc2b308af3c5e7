import { halfOpenProxy } from '../../helpers/half-open-proxy.js'
import { checkAll } from '../harness/checks.js'
import { startLoad } from '../harness/load.js'
import type { Row } from '../harness/row.js'
import { RANDOM_ROW } from '../harness/rows.js'
import { FAULTS, injectFaults } from '../harness/schedule.js'

export const row: Row = {
  number: RANDOM_ROW,
  name: 'Random schedules',
  fault: `A random schedule, by its seed, of: ${FAULTS.map(({ name }) => name).join(', ')}.`,
  promised: 'Every check of this page holds. Events of a broker that was deleted may be refused.',
  async run(stage) {
    const roles = await stage.roles({ graphs: 2 })
    const proxy = await halfOpenProxy(roles.nats.url('graphs'))
    stage.defer(() => proxy.stop())
    roles.graphs.push(await roles.add('graphs', undefined, { NATS_URL: proxy.url }))
    const perSecond = stage.size(4, 6)
    const load = startLoad(stage, {
      urls: () => roles.urls,
      perSecond,
      steps: 6,
      ms: () => stage.random.between(50, 800),
      events: 3,
      follow: 3,
    })
    const names = await injectFaults({ stage, roles, proxy }, stage.size(20, 30, 120))
    await checkAll(stage, roles, load, { losesEvents: names.some(name => /deleted/.test(name)) })
    const { length } = load.items
    return {
      load: `${length} runs at ${perSecond} a second; ${names.join(', ')} (seed ${stage.random.seed})`,
      measured: `${load.succeeded()} of ${length} succeeded`,
    }
  },
}
