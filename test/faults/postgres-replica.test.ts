/** A standby of PostgreSQL is promoted under load: what it has of the accepted runs, and that all that it has goes on. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import pg from 'pg'
import t, { type Test } from 'tap'
import type { PostgresProcess } from '../../scripts/postgres/process.js'
import { startRoles } from '../helpers/cluster.js'
import { startOwnPostgres } from '../helpers/stores/postgres-server.js'
import { until } from '../helpers/until.js'
import { load } from './load.js'

t.setTimeout(280_000)
/** Runs that are accepted before, meanwhile and after. */
const SOME = 20

type Run = ReturnType<typeof load>['accepted'][number]

async function ask(server: PostgresProcess, text: string): Promise<unknown[]> {
  const client = new pg.Client(server.url('postgres'))
  await client.connect()
  const { rows } = await client.query<unknown[]>({ text, rowMode: 'array' })
  await client.end()
  return rows[0] ?? []
}

/** An address that leads to one server, and later to another one. */
async function address(t: Test, of: PostgresProcess) {
  const portOf = (server: PostgresProcess) => Number(new URL(server.url('postgres')).port)
  const sockets = new Set<Socket>()
  let port = portOf(of)
  const proxy = createServer(client => {
    const server = connect(port, '127.0.0.1')
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        other.destroy()
      })
      socket.pipe(other)
    }
  })
  await new Promise<void>(done => proxy.listen(0, '127.0.0.1', done))
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  t.teardown(() => {
    proxy.close()
    cut()
  })
  const url = new URL(of.url('postgres'))
  url.port = `${(proxy.address() as AddressInfo).port}`
  return {
    url: url.href,
    lead(to: PostgresProcess) {
      port = portOf(to)
      cut()
    },
  }
}

/** A Weft on a primary with a standby, under load. */
async function replicated(t: Test) {
  const primary = await startOwnPostgres()
  t.teardown(() => primary.stop())
  const standby = await startOwnPostgres({}, { standbyOf: primary })
  t.teardown(() => standby.stop())
  const at = await address(t, primary)
  const roles = await startRoles({ app: 'test/apps/faults', env: { DATABASE_URI: at.url } })
  t.teardown(() => roles.stop())
  const url = roles.urls[0]!
  const { accepted, refused, stop } = load(roles)
  const goesOn = () => {
    const before = accepted.length
    return until(async () => accepted.length >= before + SOME && (await fetch(`${url}/ready`)).status === 200)
  }
  await goesOn()
  return {
    primary,
    accepted,
    goesOn,
    /** `sender`: the process of the primary that feeds the standby, when it was stopped. */
    async failOver(sender?: number) {
      await primary.kill()
      if (sender !== undefined) process.kill(sender, 'SIGKILL')
      await ask(standby, 'SELECT pg_promote()')
      at.lead(standby)
      await goesOn()
      await stop()
      t.same(
        [...new Set(refused)].filter(one => ![0, 503].includes(one)),
        [],
        'refused only as unavailable',
      )
    },
    /** How each run ended; `gone`: the store does not know it. */
    async outcomes(runs: readonly Run[]): Promise<string[]> {
      const outcome = async ({ thread_id, run_id }: Run) => {
        const answer = await fetch(`${url}/threads/${thread_id}/runs/${run_id}`)
        return answer.status === 404 ? 'gone' : ((await answer.json()) as { status: string }).status
      }
      const outcomes: string[] = []
      for (const run of runs)
        outcomes.push(
          await until(async () => {
            const one = await outcome(run)
            return !['pending', 'running'].includes(one) && one
          }),
        )
      return outcomes
    },
    async busy(): Promise<number> {
      const body = JSON.stringify({ status: 'busy' })
      const headers = { 'content-type': 'application/json' }
      return ((await (await fetch(`${url}/threads/search`, { method: 'POST', headers, body })).json()) as unknown[])
        .length
    },
  }
}

t.test('a synchronous standby has every accepted run', async t => {
  const { primary, accepted, goesOn, failOver, outcomes, busy } = await replicated(t)
  await ask(primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")
  await ask(primary, 'SELECT pg_reload_conf()')
  await until(async () => (await ask(primary, 'SELECT sync_state FROM pg_stat_replication'))[0] === 'sync')
  await goesOn()
  await failOver()
  t.same([...new Set(await outcomes(accepted))], ['success'], `${accepted.length} runs were accepted`)
  t.equal(await busy(), 0)
})

t.test('an asynchronous standby lacks the last ones, and everything else goes on', async t => {
  const { primary, accepted, goesOn, failOver, outcomes, busy } = await replicated(t)
  const [sender] = await ask(primary, 'SELECT pid FROM pg_stat_replication')
  // Nothing reaches the standby from here on.
  process.kill(sender as number, 'SIGSTOP')
  const known = accepted.length
  await goesOn()
  const answered = accepted.length
  await failOver(sender as number)
  const all = await outcomes(accepted)
  // The last ones of the four callers may have been on their way.
  const [before, meanwhile, after] = [all.slice(0, known - 4), all.slice(known, answered), all.slice(-SOME / 2)]
  t.same([...new Set(before)], ['success'], 'what it has goes on')
  t.ok(meanwhile.includes('gone'), `${meanwhile.filter(one => one === 'gone').length} of ${meanwhile.length} are gone`)
  t.same(
    meanwhile.filter(one => !['gone', 'success'].includes(one)),
    [],
  )
  t.same([...new Set(after)], ['success'], 'new runs')
  t.equal(await busy(), 0, 'no thread stays busy')
})
