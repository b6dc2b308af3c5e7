/** Which test files run, on which store, in which order, and how much of the machine each takes. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../root.js'

export interface TestFile {
  /** Path of the compiled file below the root. */
  path: string
  /** As in the report: "api/runs", "api/runs on MongoDB". */
  name: string
  onMongo: boolean
  /** Shares of the machine: most files wait most of the time and take one. */
  weight: number
}

export interface Choice {
  /** Only files whose path contains it. */
  only?: string | undefined
  /** Not those that need a browser on this machine. */
  withoutBrowser: boolean
  /** Not those that need a MongoDB server. */
  embeddedOnly: boolean
}

/** These keep a core busy for most of their time, or measure how something else bears it; others mostly wait. */
const BUSY = /^browser\/|^(scripts\/bench|api\/large-(streams|values)|faults\/host-crashes)$/
const BROWSER = /^browser\//
/** What needs a MongoDB server in any case. */
const MONGO = /(^|\/)mongo[\w-]*$/
/** What runs a second time, on MongoDB: calls whose answers depend on stored rows. */
const BOTH_STORES = /^(api|contract|faults)\//
/** But not these, because the second run would check nothing that depends on the store. */
const ONE_STORE: { readonly [name: string]: string } = {
  'faults/store-locked': 'locks the file of the embedded store',
  'faults/host-crashes': 'harms hosts; their rows are those of lease-loss, full-restart and paused-worker',
  'faults/malformed-frames': 'harms hosts, as faults/host-crashes',
  'faults/isolated-graph': 'harms hosts, as faults/host-crashes',
  'faults/load-spread': 'wake-ups of the broker; its runs are rows as those of faults/killed-worker',
  'faults/slow-clients': 'events on their way to a client; they are kept by the broker',
  'faults/mongo': 'starts its own servers',
  'faults/mongo-crons': 'starts its own server',
  'api/first-steps': 'the rows of api/runs, by the commands of the README',
  'api/examples': 'the rows of api/runs, with other graphs',
  'api/python': 'the rows of api/runs and api/threads, by another client',
  'api/python-graphs': 'the rows of api/runs and api/threads, by another host',
  'api/remote-graph': 'the rows of api/runs and api/threads, by another client',
  'api/protocols/v2': 'events on their way to a client; its runs are rows as those of api/runs',
  'api/protocols/v2-socket': 'events on their way to a client; its runs are rows as those of api/runs',
  'api/stream-resume': 'events on their way to a client; they are kept by the broker',
  'api/thread-stream': 'events on their way to a client; they are kept by the broker',
  'api/messages': 'events on their way to a client',
  'api/large-streams': 'events on their way to a client',
  'api/traces': 'spans; the column of the store is in its conformance rows',
  'api/openapi': 'the document, and requests that are generated from it',
  'api/descriptions': 'drawings and schemas, which hosts compute from code',
  'api/library-lines': 'the rows of api/runs, with other versions of the library',
}

/** Longest first, so that no long file begins when all others have ended. Seconds on two cores; others take less. */
const LONG: { readonly [name: string]: number } = {
  'faults/mongo': 120,
  'faults/host-crashes': 115,
  'faults/full-restart': 100,
  'api/large-values': 50,
  'api/large-streams': 45,
  'api/cancel': 90,
  'faults/lease-loss': 65,
  'store/sqlite': 65,
  'deploy/deployments': 55,
  'api/multitask': 45,
  'api/thread-copy-prune-ttl': 45,
  'deploy/kill': 40,
  'faults/malformed-frames': 28,
  'faults/half-open': 60,
  'faults/large-states': 60,
  'faults/paused-worker': 60,
  'faults/slow-clients': 30,
  'faults/killed-worker': 60,
  'host/application': 60,
  'host/node-gate': 30,
  'faults/isolated-graph': 24,
  'faults/mongo-crons': 40,
  'scripts/bench': 35,
  'api/crons': 33,
  'store/mongo': 33,
  'faults/rolling-restart': 30,
  'resources/deployment-tasks': 30,
  'scripts/weft': 30,
  'api/protocols/v2': 28,
  'api/python': 28,
  'api/control-plane/secrets-not-in-clear': 28,
  'api/disconnect': 27,
  'api/protocols/v2-socket': 27,
  'api/stream-resume': 27,
  'host/run-payload': 27,
  'api/thread-stream': 25,
  'resources/cron-firing': 25,
  'resources/alarms': 24,
  'store/mongo-own': 22,
}
const SHORT = 10

export function testFiles({ only = '', withoutBrowser, embeddedOnly }: Choice): TestFile[] {
  const names = readdirSync(join(root, 'dist/test'), { recursive: true, encoding: 'utf8' })
    .filter(path => path.endsWith('.test.js') && `dist/test/${path}`.includes(only))
    .map(path => path.replaceAll('\\', '/').slice(0, -'.test.js'.length))
    .filter(name => !(withoutBrowser && BROWSER.test(name)) && !(embeddedOnly && MONGO.test(name)))
  const file = (name: string, onMongo: boolean): TestFile => ({
    path: `dist/test/${name}.test.js`,
    name: onMongo ? `${name} on MongoDB` : name,
    onMongo,
    weight: BUSY.test(name) ? 2 : 1,
  })
  const again = embeddedOnly ? [] : names.filter(name => BOTH_STORES.test(name) && !(name in ONE_STORE))
  const seconds = (file: TestFile) => LONG[file.name.replace(' on MongoDB', '')] ?? SHORT
  return [...names.map(name => file(name, false)), ...again.map(name => file(name, true))].sort(
    (a, b) => seconds(b) - seconds(a) || (a.name < b.name ? -1 : 1),
  )
}
