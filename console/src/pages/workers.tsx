/** Pools, workers and the store, as `/metrics` tells: what an operator watches when scaling. */
import { useEffect, useState } from 'react'
import { ask } from '../api/client'
import { useLoad } from '../api/load'
import { Button } from '../ui/button'
import { Chart } from '../ui/chart'
import { Empty, LoadedView } from '../ui/notice'
import { Page } from '../ui/page'
import { durationText } from '../ui/time'
import '../styles/processes.css'
import { bytesText, type Figures, figuresOf, type Metrics, type Worker } from './workers/figures'
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
    <Page
      title="Queues and workers"
      note="Anew every 5 seconds; the charts begin when this page is opened."
      actions={
        <Button icon="redo" onClick={loaded.reload}>
          Refresh
        </Button>
      }
    >
      <LoadedView of={loaded}>
        {({ pools, workers, store }) => (
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
            <section className="processes" aria-label="Processes">
              <h2>Processes</h2>
              {workers.map(worker => (
                <Process key={worker.process} of={worker} />
              ))}
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

/** A process once, whatever roles it has, with its graph hosts. */
const Process = ({ of: { process, roles, version, ...figures } }: { of: Worker }) => (
  <article className="card process" aria-label={`Process ${process}`}>
    <div className="process-head">
      <h3>{roles.join(', ')}</h3>
      <span className="mono muted">{process}</span>
      {version !== '' && <span className="muted">Weft {version}</span>}
    </div>
    <dl className="figures">
      {figures.running !== null && <Figure name="Running" value={`${figures.running}`} />}
      <Figure name="Memory" value={bytesText(figures.memory)} />
      <Figure name="CPU time" value={durationText(figures.cpu * 1_000)} />
      <Figure name="Loop delay, p99" value={durationText(figures.delay * 1_000)} />
    </dl>
    {roles.includes('graphs') && <HostTable hosts={figures.hosts} />}
  </article>
)

const Figure = ({ name, value }: { name: string; value: string }) => (
  <div>
    <dt>{name}</dt>
    <dd>{value}</dd>
  </div>
)

const Tile = ({ name, value }: { name: string; value: string }) => (
  <div className="tile">
    <span className="muted">{name}</span>
    <strong>{value}</strong>
  </div>
)
