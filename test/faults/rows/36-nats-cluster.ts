import { setTimeout as sleep } from 'node:timers/promises'
import { type NatsCluster, startNatsCluster } from '../../helpers/nats-cluster.js'
import { until } from '../../helpers/until.js'
import { checkAll } from '../harness/checks.js'
import { startLoad } from '../harness/load.js'
import type { Row } from '../harness/row.js'

const SERVERS = 3

export const row: Row = {
  number: 36,
  name: 'One of three NATS servers dies, or loses its disk',
  fault:
    'kill -9 of the server that leads the streams, started again after a few seconds; then of the next leader, whose folder is ' +
    'deleted while it is down; in turn.',
  promised:
    'Runs are accepted all the time. Every accepted run ends, no stored event is lost, no stream is made anew, and every ' +
    'stream ends whole (`WEFT_NATS_REPLICAS=3`).',
  oneStore: 'no server of the broker touches the store',
  async run(stage) {
    const turns = stage.size(1, 2, 6)
    const away = stage.size(3, 8, 15)
    let cluster!: NatsCluster
    const roles = await stage.roles({
      broker: async () => (cluster = await startNatsCluster(SERVERS)),
      env: { WEFT_NATS_REPLICAS: `${SERVERS}` },
    })
    const perSecond = stage.size(8, 15)
    const load = startLoad(stage, { urls: () => roles.urls, perSecond, steps: 6, ms: 200, events: 5, follow: 4 })
    const gaps: number[] = []
    const inSync = () => Promise.all([cluster.inSync('RUNS'), cluster.inSync('EVENTS')])
    const hit = async (wiped: boolean) => {
      const leader = await cluster.leaderOf('EVENTS')
      const since = performance.now()
      cluster.servers[leader]!.kill()
      await until(() => cluster.servers[leader]!.pid() === null)
      if (wiped) cluster.wipe(leader)
      await cluster.leaderOf('EVENTS')
      gaps.push(performance.now() - since)
      await sleep(away * 1_000)
      await cluster.servers[leader]!.restart()
      await inSync()
    }
    await sleep(2_000)
    for (let n = 0; n < turns; n++) {
      await hit(false)
      await hit(true)
    }
    await checkAll(stage, roles, load)
    const refused = stage.ledger.count('fail')
    const remade = roles.resources.filter(({ output }) => output().includes('created anew')).length
    stage.expect(remade === 0, 'a stream was made anew')
    const success = load.items.filter(({ status }) => status === 'success').length
    return {
      load: `${load.items.length} runs at ${perSecond} a second; ${turns} kills, ${turns} kills with a lost disk`,
      measured:
        `${success} of ${load.items.length} runs succeeded, ${refused} calls were refused; a new leader after ` +
        `${(Math.max(...gaps) / 1_000).toFixed(1)} s at most`,
    }
  },
}
