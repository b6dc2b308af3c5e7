/** Pools, workers and the store, as `/metrics` tells: what an operator watches when scaling. */
import { useEffect, useState } from 'react'
import { ask } from '../api/client'
import { useLoad } from '../api/load'
import { Chart } from '../ui/chart'
import { Empty, LoadedView } from '../ui/notice'
import { Page } from '../ui/page'
import { durationText } from '../ui/time'
import { bytesText, type Figures, figuresOf, type Metrics } from './workers/figures'
import { HostTable } from './workers/hosts'

const EVERY_MS = 5_000
/** Half an hour. */
const KEPT = 360

export default function Workers() {
  const loaded = useLoad('metrics', async signal => figuresOf(await ask<Metrics>('/metrics?format=json', { signal })), {
    every: EVERY_MS,
  })
  const [past, setPast] = useState<Figures[]>([])
  const { data } = loaded
  useEffect(() => {
    if (data !== undefined) setPast(last => [...last, data].slice(-KEPT))
  }, [data])
  return (
    <Page title="Queues and workers" note="Anew every 5 seconds; the charts begin when this page is opened.">
      <LoadedView of={loaded}>
        {({ pools, hosts, workers, store }) => (
          <>
            {pools.length === 0 && (
              <Empty title="No pool" icon="workers">
                No graph worker has reported. Runs wait until one does.
              </Empty>
            )}
            {pools.map(({ pool, ...now }) => {
              const series = (pick: (one: typeof now) => number) =>
                past.map(({ pools }) => {
                  const found = pools.find(one => one.pool === pool)
                  return found === undefined ? 0 : pick(found)
                })
              return (
                <section key={pool} className="card" aria-label={`Pool ${pool}`}>
                  <h2>Pool {pool}</h2>
                  <div className="charts">
                    <Chart name="Waiting" value={`${now.waiting}`} points={series(one => one.waiting)} />
                    <Chart
                      name="Oldest wait"
                      value={durationText(now.oldest * 1_000)}
                      points={series(one => one.oldest)}
                    />
                    <Chart
                      name="Running"
                      value={`${now.running} of ${now.slots}`}
                      points={series(one => one.running)}
                    />
                    <Chart name="Hosts" value={`${now.hosts}`} points={series(one => one.hosts)} />
                    <Chart name="Redelivered" value={`${now.redelivered}`} points={series(one => one.redelivered)} />
                  </div>
                </section>
              )
            })}
            <section className="card scroll-x" aria-label="Hosts">
              <h2>Hosts</h2>
              <HostTable hosts={hosts} />
            </section>
            <section className="card scroll-x" aria-label="Processes">
              <h2>Processes</h2>
              <table className="table">
                <thead>
                  <tr>
                    <th>Role</th>
                    <th>Worker</th>
                    <th>Version</th>
                    <th>Running</th>
                    <th>Memory</th>
                    <th>CPU time</th>
                    <th>Loop delay, p99</th>
                  </tr>
                </thead>
                <tbody>
                  {workers.map(({ role, worker, version, running, memory, cpu, delay }) => (
                    <tr key={`${role} ${worker}`}>
                      <td>{role}</td>
                      <td>
                        <span className="mono">{worker}</span>
                      </td>
                      <td>{version || '–'}</td>
                      <td>{running ?? '–'}</td>
                      <td>{bytesText(memory)}</td>
                      <td>{durationText(cpu * 1_000)}</td>
                      <td>{durationText(delay * 1_000)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </section>
            <section aria-label="Store" className="tiles">
              <Tile name="Runs taken over" value={`${store.takeovers}`} />
              <Tile name="Store" value={bytesText(store.bytes)} />
              <Tile name="Free disk" value={store.free === null ? '–' : bytesText(store.free)} />
              <Tile name="Small read" value={durationText(store.ping * 1_000)} />
            </section>
          </>
        )}
      </LoadedView>
    </Page>
  )
}

const Tile = ({ name, value }: { name: string; value: string }) => (
  <div className="tile">
    <span className="muted">{name}</span>
    <strong>{value}</strong>
  </div>
)
