/** The deps of several resource workers, without their handlers, on one store and one broker. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { v7 } from 'uuid'
import { openCaller } from '../../bus/call.js'
import { type Link, openLink, type Role } from '../../bus/connect.js'
import { openLog } from '../../bus/log.js'
import { openMux } from '../../bus/mux.js'
import { ensureConsumer, ensureStreams } from '../../bus/streams.js'
import { openTunnels } from '../../bus/tunnel.js'
import { readScheduling } from '../../schemas/auth/scheduling.js'
import type { WakeUp } from '../../schemas/calls.js'
import { type Config, readConfig } from '../../schemas/config.js'
import { BUILT_IN_APP, token } from '../../schemas/ids.js'
import { openMongo } from '../../store/mongo.js'
import type { Store } from '../../store/port.js'
import { openPostgres } from '../../store/postgres.js'
import { openSqlite } from '../../store/sqlite.js'
import type { Step } from '../../store/steps.js'
import { parseAllowed } from '../../workers/outbound.js'
import { openAlarms } from '../../workers/resources/alarms.js'
import { openApps } from '../../workers/resources/apps.js'
import type { Deps } from '../../workers/resources/context.js'
import { openDescriptions } from '../../workers/resources/descriptions.js'
import { openEncryption } from '../../workers/resources/encryption/store.js'
import { openRing } from '../../workers/resources/keys/ring.js'
import { type Announced, openAppSettings } from '../../workers/resources/rows/app-settings.js'
import { systemAssistantId } from '../../workers/resources/rows/assistant.js'
import { openSweeps } from '../../workers/resources/rows/thread-ttl.js'
import { openHolders } from '../../workers/resources/runs/holders.js'
import { openSlots } from '../../workers/resources/runs/slots.js'
import { newDeliveries } from '../../workers/resources/runs/webhooks.js'
import { openScheduler } from '../../workers/resources/scheduling/scheduler.js'
import { serializer } from '../../workers/resources/serialize.js'
import { openRankings } from '../../workers/resources/vectors/ranking.js'
import { startNats } from '../helpers/nats.js'
import { storeOf } from '../helpers/stores/store.js'
import { assistant } from '../store/conformance-rows.js'

const log = openLog('test', process.env.WEFT_TEST_LOG ?? 'silent')

export interface Stage {
  /** The store itself, without the wrappers of the workers. */
  store: Store
  all: Deps[]
  /** Resolves when a wake-up of the run is in the work queue. */
  seen(run_id: string): Promise<void>
  /** A connection of another role. */
  connect(role: Role): Promise<Link>
}

/** With an assistant of graph `g`. `wrap` makes the store of each worker. */
const NO_SETTINGS: Announced = {
  thread_ttl: null,
  item_ttl: null,
  item_index: null,
  app_store: null,
  app_checkpointer: null,
  encryption: null,
  app_http: null,
  app_host: null,
  app_webhooks: null,
}

/** Stores settings of a pool as a graph worker that announces nothing else. */
export const announceSettings = (
  { settings }: Pick<Deps, 'settings'>,
  app: string,
  announced: Partial<Announced>,
  pool = 'default',
): Promise<void> => settings.announce(app, pool, { ...NO_SETTINGS, ...announced })

export async function stage(
  t: Test,
  workers: number,
  wrap: (store: Store) => Store = store => store,
  settings: Partial<Config> = {},
): Promise<Stage> {
  const nats = await startNats()
  const data = mkdtempSync(join(tmpdir(), 'weft-stage-'))
  const config = readConfig({}, { data, max_file_store: 1024 ** 3, ...settings })
  const { database_uri, mongodb_url } = await storeOf(data)
  const store =
    database_uri !== ''
      ? await openPostgres({ url: database_uri })
      : mongodb_url !== ''
        ? await openMongo({ url: mongodb_url })
        : await openSqlite({ folder: data })
  const undo: (() => Promise<void> | void)[] = []
  const open = async (): Promise<Deps> => {
    const link = await openLink({ url: nats.url('resources'), role: 'resources', log })
    const mux = openMux(link)
    const apps = openApps(async () => null)
    const settings = openAppSettings(store)
    const deps: Deps = {
      config,
      store: wrap(store),
      scheduler: openScheduler(readScheduling(config.scheduling), store, apps),
      link,
      mux,
      streams: { problem: () => null, storesSince: () => 0, check: async () => {}, stop() {} },
      caller: openCaller(link),
      settings,
      dueSweep: openSweeps(settings),
      tunnels: openTunnels(link),
      encryption: await openEncryption(store),
      rankings: openRankings(store),
      descriptions: openDescriptions(),
      apps,
      allowed: parseAllowed(''),
      webhookSecret: Buffer.from('x'),
      issuer: null,
      ring: openRing('a key of a test that is long'),
      workspace: { tenant_id: v7(), organization_id: v7() },
      serialize: serializer(),
      slots: openSlots(link, mux),
      alarms: openAlarms(link),
      holders: openHolders(),
      deliveries: newDeliveries(),
      disk: { expectRoom() {} },
      tracer: null,
    }
    undo.push(async () => {
      await deps.slots.close()
      deps.alarms.stop()
      deps.tunnels.close()
      deps.mux.close()
      deps.caller.close()
      await link.close()
    })
    return deps
  }
  const all: Deps[] = []
  for (let i = 0; i < workers; i++) all.push(await open())
  await ensureStreams(all[0]!.link, config)
  await ensureConsumer(all[0]!.link, token('pool', 'default'))
  const row = assistant({ app: BUILT_IN_APP, assistant_id: systemAssistantId('g'), graph_id: 'g' })
  await store.apply([{ step: 'assistants.insert', row }])

  const woken = new Set<string>()
  const watch = await openLink({ url: nats.url('resources'), role: 'resources', log })
  const { streams } = await watch.nc.jetstreamManager()
  let read = 0
  let reading = true
  const reader = (async () => {
    while (reading) {
      const { last_seq } = (await streams.info('RUNS')).state
      while (read < last_seq) woken.add((await streams.getMessage('RUNS', { seq: ++read })).json<WakeUp>().run_id)
      await new Promise(done => setTimeout(done, 20))
    }
  })()
  t.teardown(async () => {
    reading = false
    await reader
    await watch.close()
    for (const one of undo) await one()
    await store.close()
    await nats.stop()
    rmSync(data, { recursive: true, force: true })
  })
  return {
    store,
    all,
    async connect(role) {
      const link = await openLink({ url: nats.url(role), role, log })
      undo.push(() => link.close())
      return link
    },
    async seen(run_id) {
      while (!woken.has(run_id)) await new Promise(done => setTimeout(done, 10))
    },
  }
}

export class Crash extends Error {}

export interface Stepwise extends Store {
  /** Crashes before step `at` of the next list. */
  crashBefore(at: number): void
  /** Crashes after `count` more steps, over all lists. */
  crashAfter(count: number): void
}

/** A store that does steps one by one, as one without transactions, and crashes between two on request. */
export function stepwise(store: Store): Stepwise {
  let at = Number.POSITIVE_INFINITY
  let left = Number.POSITIVE_INFINITY
  return {
    ...store,
    crashBefore: n => {
      at = n
    },
    crashAfter: n => {
      left = n
    },
    async apply(steps: readonly Step[]) {
      for (let i = 0; i < steps.length; i++) {
        if (i === at || left === 0) {
          at = Number.POSITIVE_INFINITY
          throw new Crash('crashed')
        }
        left--
        if ((await store.apply([steps[i]!])) !== -1) return i
      }
      return -1
    },
  }
}
