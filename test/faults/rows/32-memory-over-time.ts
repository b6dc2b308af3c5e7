import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectionsTo } from '../../helpers/processes.js'
import type { Row } from '../harness/row.js'
import { shortRuns } from '../harness/short-runs.js'
import { rolesIn, type Sample, type SoakRole, sampleOf, totals, trendOf } from '../soak/samples.js'

const KB_PER_RUN = 1
/** With smaller loads: the heaps of Node.js grow to their usual size during the first 10,000 runs. */
const KB_PER_RUN_QUICK = 20
const KB_PER_RUN_USUAL = 10
const SAMPLES = 200
/** Connections of a resource worker: the pool, and what its driver watches the server with. */
const POOL = 55
/** Clients close their idle connections, and processes what they keep open for the next call. */
const IDLE_MS = 10_000

export const row: Row = {
  number: 32,
  name: 'Memory over time',
  fault: 'None: a thread is created, a short run on it is awaited, and the thread is deleted, again and again.',
  promised:
    `Resident memory of a process grows by ${KB_PER_RUN} KB a run at most over the second half (${KB_PER_RUN_USUAL} KB with the usual load and ${KB_PER_RUN_QUICK} with the small one, ` +
    'in which heaps still grow to their usual size); afterwards each role has as many open descriptors as after the first tenth, ' +
    `beside the connections to the database, which the driver opens when calls meet, up to ${POOL}, and keeps.`,
  async run(stage) {
    const most = stage.size(KB_PER_RUN_QUICK, KB_PER_RUN_USUAL, KB_PER_RUN)
    const count = stage.size(4_000, 6_000, 100_000)
    const roles = await stage.roles({ edges: 1, graphs: 1, resources: 1 })
    const url = roles.urls[0]!
    const samples: Sample[] = []
    const each = Math.ceil(count / SAMPLES)
    const first = count / 10
    const sample = (n: number) => {
      if (n % each === 0) samples.push(sampleOf(n, roles))
    }
    const { DATABASE_URI, MONGODB_URL } = stage.env()
    const database = DATABASE_URI || MONGODB_URL
    const port = database === '' ? null : Number(new URL(database).port)
    const idle = async () => {
      await sleep(IDLE_MS)
      const now = [sampleOf(0, roles)]
      const files = new Map(rolesIn(now).map((role): [SoakRole, number] => [role, totals(now, role, 'files')[0]![1]]))
      const pooled = port === null ? 0 : connectionsTo(roles.resources[0]!.pid, port)
      files.set('resources', files.get('resources')! - pooled)
      return { files, pooled }
    }
    const since = performance.now()
    const early = await shortRuns(stage, url, first, sample)
    const before = await idle()
    const failed = early + (await shortRuns(stage, url, count - first, n => sample(first + n)))
    const seconds = (performance.now() - since - IDLE_MS) / 1_000
    const after = await idle()
    writeFileSync(join(stage.folder, 'samples.jsonl'), samples.map(one => `${JSON.stringify(one)}\n`).join(''))
    stage.expect(after.pooled <= POOL, `${after.pooled} connections to the database`)
    stage.expect(failed === 0, `${failed} of ${count} runs or deletes failed`)
    const found = rolesIn(samples).map(role => {
      const kb = trendOf(samples, role, 'mb', count / 2).slope * 1_024
      stage.expect(kb <= most, `${role} grew by ${kb.toFixed(2)} KB a run`)
      const [from, to] = [before.files.get(role), after.files.get(role)]
      stage.expect(from === to, `${role} has ${to} open descriptors, ${from} before`)
      const mb = totals(samples, role, 'mb').at(-1)![1]
      return `${role} ${kb.toFixed(2)} KB a run (${Math.round(mb)} MB at the end, ${to} descriptors)`
    })
    return {
      load: `${count} runs of one node and deletes of their threads by four callers, ${Math.round(count / seconds)} a second`,
      measured: [
        ...found,
        ...(port === null ? [] : [`${after.pooled} connections to the database, ${before.pooled} before`]),
      ].join('; '),
    }
  },
}
