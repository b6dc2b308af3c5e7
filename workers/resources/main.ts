/** The resource worker: the rules, and the only way to the store. */
import { mkdir } from 'node:fs/promises'
import { openCaller } from '../../bus/call.js'
import type { Link } from '../../bus/connect.js'
import type { Lifecycle } from '../../bus/lifecycle.js'
import { openMux } from '../../bus/mux.js'
import { openTracer } from '../../bus/otlp/traces.js'
import { answerPoolUsers, openIssuer } from '../../bus/pool-users.js'
import { type Handler, newLane, openPoolLanes, serve } from '../../bus/serve.js'
import { watchStreams } from '../../bus/stream-watch.js'
import { ensureStreams } from '../../bus/streams.js'
import { openTunnels } from '../../bus/tunnel.js'
import { readScheduling } from '../../schemas/auth/scheduling.js'
import type { Config } from '../../schemas/config.js'
import { event, poolCalls } from '../../schemas/subjects.js'
import type { Store } from '../../store/port.js'
import { parseAllowed } from '../outbound.js'
import { openAlarms } from './alarms.js'
import { askForAnnouncements, followAnnouncements } from './announcements.js'
import { inApplication, isPool, openApps } from './apps.js'
import { assistants } from './assistants/rpc.js'
import { compareClock } from './clock.js'
import type { Deps } from './context.js'
import { pauseCronsOf } from './crons/rights.js'
import { crons } from './crons/rpc.js'
import { deployments, revisions } from './deployments/rpc.js'
import { findServed } from './deployments/served.js'
import { openDescriptions } from './descriptions.js'
import { watchDisk } from './disk.js'
import { serving } from './encryption/context.js'
import { ownCipher } from './encryption/own.js'
import { openEncryption } from './encryption/store.js'
import { items } from './items/rpc.js'
import { control, controlDigests } from './keys/control-key.js'
import { provedRing, renewSecrets } from './keys/renew.js'
import { keys } from './keys/rpc.js'
import { measureWrites, reportMetrics } from './metrics.js'
import { providers } from './oauth/providers.js'
import { oauth } from './oauth/rpc.js'
import { poolCallHandlers } from './pool-calls.js'
import { commands } from './protocols/v2.js'
import { openAppSettings } from './rows/app-settings.js'
import { openSweeps } from './rows/thread-ttl.js'
import { openHolders, trackHeartbeats, watchOutages } from './runs/holders.js'
import { runs } from './runs/rpc.js'
import { openSlots } from './runs/slots.js'
import { newDeliveries, webhookSecret } from './runs/webhooks.js'
import { openScheduler } from './scheduling/scheduler.js'
import { serializer } from './serialize.js'
import { claimCluster } from './store-identity.js'
import { startSweeper } from './sweeper.js'
import { system } from './system.js'
import { threadStreams } from './threads/follow.js'
import { threads } from './threads/rpc.js'
import { openRankings } from './vectors/ranking.js'
import { workspaceOf } from './workspace.js'

/**
 * Serves `rpc.*` on this link until the lifecycle stops it. Throws an Error with one sentence when it cannot. `ended`: the
 * processes of graph workers that have ended, as their launcher has named them.
 */
export async function startResources(
  config: Config,
  link: Link,
  life: Lifecycle,
  ended: readonly string[] = [],
): Promise<void> {
  await mkdir(config.data, { recursive: true, mode: 0o700 })
  const holders = openHolders()
  const encryption = await openEncryption(trackHeartbeats(measureWrites(await openStore(config, link), link), holders))
  const { store } = encryption
  life.push({ name: 'store', stop: () => store.close() })
  const mux = openMux(link)
  const onConflict = (error: Error) => {
    link.log.fatal({ err: error }, 'another store or version is served; exiting')
    void life.stop().then(() => process.exit(2))
  }
  await claimCluster({ config, store, link, mux, life, onConflict })
  await ensureStreams(link, config)
  // Before the first row is written.
  await compareClock(mux)
  const caller = openCaller(link)
  const streams = watchStreams({ link, mux, config, onCreated: () => askForAnnouncements({ link }) })
  life.push({ name: 'stream watch', quiet: () => streams.stop() })
  const ring = await provedRing(config, store, link.log)
  const tracer = await openTracer(config, 'resources', link.log)
  if (tracer !== null) life.push({ name: 'traces', stop: () => tracer.close() })
  const disk = await watchDisk(config, store, link.log)
  life.push({ name: 'disk', quiet: () => disk.stop() })
  const settings = openAppSettings(store)
  const apps = openApps(findServed(store, settings))
  const deps: Deps = {
    config,
    store,
    link,
    mux,
    streams,
    caller,
    apps,
    settings,
    dueSweep: openSweeps(settings),
    tunnels: openTunnels(link),
    encryption,
    rankings: openRankings(store),
    descriptions: openDescriptions(),
    allowed: parseAllowed(config.allow_hosts),
    webhookSecret: await webhookSecret(config, store),
    issuer: config.nats_issuer === '' ? null : openIssuer(config.nats_issuer),
    ring,
    workspace: await workspaceOf(store),
    serialize: serializer(),
    slots: openSlots(link, mux),
    scheduler: openScheduler(readScheduling(config.scheduling), encryption.plain, apps),
    alarms: openAlarms(link),
    holders,
    deliveries: newDeliveries(),
    disk,
    tracer,
  }
  const own = ownCipher(config, ring)
  encryption.use({ caller, apps, settings, own })
  if (own.encrypts) await encryption.turnOn()
  life.push({ name: 'runs that are handed over', stop: () => deps.slots.close() })
  life.push({ name: 'rankings', stop: () => deps.rankings.close() })
  life.push({ name: 'streams to applications', stop: async () => deps.tunnels.close() })
  watchOutages(holders, link, life)
  await followAnnouncements(deps, life)
  const nouns = {
    assistants: assistants(deps),
    threads: { ...threads(deps), ...threadStreams(deps), ...commands(deps) },
    runs: runs(deps),
    crons: crons(deps),
    items: items(deps),
    system: system(deps),
  }
  const all: { [noun: string]: { [verb: string]: Handler } } = {
    deployments: deployments(deps),
    revisions: revisions(deps),
    providers: providers(deps),
    oauth: oauth(deps),
    control: control(await controlDigests(config, store)),
    keys: keys({ store, link, pauseCrons: id => pauseCronsOf(deps, id) }),
  }
  for (const noun in nouns)
    all[noun] = inApplication(deps.apps, nouns[noun as keyof typeof nouns], encryption.isOn, serving)
  const lane = newLane()
  const poolLanes = openPoolLanes()
  for (const [noun, handlers] of Object.entries(all)) {
    const served = serve(link, `rpc.${noun}`, noun, handlers, { lane, tracer })
    life.push({ name: `rpc.${noun}`, stop: () => served.quiet() })
  }
  for (const [noun, handlers] of Object.entries(poolCallHandlers(deps))) {
    const served = serve(link, poolCalls(noun as keyof ReturnType<typeof poolCallHandlers>), noun, handlers, {
      poolLanes,
      tracer,
    })
    life.push({ name: `calls of pools: ${noun}`, stop: () => served.quiet() })
  }
  if (deps.issuer !== null) {
    const users = answerPoolUsers({ link, issuer: deps.issuer, isKnown: sender => isPool(deps, sender) })
    life.push({ name: 'users of pools', stop: () => users.close() })
  }
  // Another worker may have changed a deployment: drop the cached ones.
  const changed = link.subscribe(event('deployments', 'changed'), () => deps.apps.forget())
  life.push({ name: 'deployments changed', quiet: () => changed.unsubscribe() })
  // Asks running graph workers to announce themselves, because announcements during the downtime were missed.
  askForAnnouncements(deps)
  life.push({ name: 'announcements after a reconnect', quiet: link.onReconnect(() => askForAnnouncements(deps)) })
  void renewSecrets({ store, ring: deps.ring, log: link.log }).catch(error =>
    link.log.warn({ err: error }, 'secrets could not be re-encrypted'),
  )
  await reportMetrics(deps, life)
  deps.alarms.start(deps)
  life.push({ name: 'alarms', quiet: () => deps.alarms.stop() })
  const sweeper = startSweeper(deps, ended)
  life.push({ name: 'sweeper', quiet: () => sweeper.stop() })
}

/** PostgreSQL or MongoDB, which many workers share, when it is configured; else the embedded store, which only one worker opens. */
async function openStore({ database_uri, mongodb_url, data }: Config, { log }: Link): Promise<Store> {
  if (database_uri !== '') return (await import('../../store/postgres.js')).openPostgres({ url: database_uri, log })
  if (mongodb_url !== '') return (await import('../../store/mongo.js')).openMongo({ url: mongodb_url, log })
  return (await import('../../store/sqlite.js')).openSqlite({ folder: data, log })
}
