/** Which test files run, on which store, in which order, and how many cores each keeps busy. */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../root.js'

export interface TestFile {
  /** Path of the compiled file below the root. */
  path: string
  /** As in the report: "api/runs", "api/runs on MongoDB". */
  name: string
  onMongo: boolean
  /** It uses a MongoDB server: the one of the test run, except for those that it kills. */
  needsMongo: boolean
  /** It can use the server of other files. */
  shared: boolean
  /** Cores that it keeps busy with its processes, on average over its time on an idle machine. */
  cores: number
}

export interface Choice {
  /** Only files whose path contains it. */
  only?: string | undefined
  /** Not those that need a browser on this machine. */
  withoutBrowser: boolean
  /** Not those that need a MongoDB server. */
  embeddedOnly: boolean
}

const BROWSER = /^(browser|console)\//
/**
 * They use one server per store together (shared-server.ts): they change only what they have created, and stop no process.
 * Not api/python: it cancels all runs of its server.
 */
const SHARED: readonly string[] = [
  'api/assistants',
  'api/delayed-runs',
  'api/messages',
  'api/multitask',
  'api/protocols/a2a-python',
  'api/protocols/mcp-conformance',
  'api/protocols/v2',
  'api/remote-graph',
  'api/run-joins',
  'api/run-payload',
  'api/runs',
  'api/store/items',
  'api/stream-resume',
  'api/thread-state',
  'api/thread-stream',
  'contract/assistants',
  'contract/state',
]
/** What needs a MongoDB server in any case. */
const MONGO = /(^|\/)mongo[\w-]*$/
/** What runs a second time, on MongoDB: calls whose answers depend on stored rows. */
const BOTH_STORES = /^(api|contract|faults)\//
/** But not these, because the second run would check nothing that depends on the store. */
const ONE_STORE: { readonly [name: string]: string } = {
  'api/protocols/a2a-python': 'the requests of api/protocols/a2a, by other clients',
  'api/protocols/mcp-conformance': 'the requests of api/protocols/mcp, by another client',
  'api/protocols/mcp': 'requests of the edge to the API, which other files test',
  'faults/store-locked': 'locks the file of the embedded store',
  'faults/host-crashes': 'harms hosts; their rows are those of lease-loss, full-restart and paused-worker',
  'faults/malformed-frames': 'harms hosts, as faults/host-crashes',
  'faults/isolated-graph': 'harms hosts, as faults/host-crashes',
  'faults/poison': 'harms hosts, as faults/host-crashes',
  'faults/python-hosts': 'harms hosts, as faults/host-crashes',
  'faults/load-spread': 'wake-ups of the broker; its runs are rows as those of faults/killed-worker',
  'faults/nats-cluster': 'NATS servers; its runs are rows as those of faults/broker-wiped',
  'faults/slow-clients': 'events on their way to a client; they are kept by the broker',
  'faults/mongo': 'uses MongoDB in any case',
  'faults/mongo-crons': 'uses MongoDB in any case',
  'faults/mongo-clock': 'uses MongoDB in any case',
  'api/first-steps': 'the rows of api/runs, by the commands of the README',
  'api/examples': 'the rows of api/runs, with other graphs',
  'api/oauth/https': 'a cookie and addresses; its rows are those of api/oauth/flow',
  'api/oauth/python': 'the rows of api/oauth/flow, by another client',
  'api/python': 'the rows of api/runs and api/threads, by another client',
  'api/python-graphs': 'the rows of api/runs and api/threads, by another host',
  'api/remote-graph': 'the rows of api/runs and api/threads, by another client',
  'api/protocols/v2': 'events on their way to a client; its runs are rows as those of api/runs',
  'api/protocols/v2-socket': 'events on their way to a client; its runs are rows as those of api/runs',
  'api/stream-resume': 'events on their way to a client; they are kept by the broker',
  'api/thread-stream': 'events on their way to a client; they are kept by the broker',
  'api/messages': 'events on their way to a client',
  'api/large-streams': 'events on their way to a client',
  'api/system/traces': 'spans; the column of the store is in its conformance rows',
  'api/system/hosts': 'figures of hosts, which graph workers keep',
  'api/system/openapi': 'the document, and requests that are generated from it',
  'api/system/custom-routes': 'requests on their way to the application and back',
  'api/auth/python': 'the rows of api/auth/matrix and callers, by another host',
  'api/auth/deployed': 'who decides about a request; its rows are those of api/auth/matrix',
  'api/descriptions': 'drawings and schemas, which hosts compute from code',
  'api/library-lines': 'the rows of api/runs, with other versions of the library',
}

/**
 * [seconds, cores] of files that differ from the rest, measured on two cores: the time, and the CPU time of a file and its
 * processes divided by it. Others count as USUAL.
 */
const MEASURED: { readonly [name: string]: readonly [seconds: number, cores: number] } = {
  'api/large-streams': [35, 1],
  'api/large-values': [28, 1],
  'scripts/bench': [26, 1],
  'faults/host-crashes': [100, 0.5],
  'deploy/kill-matrix': [75, 0.9],
  'faults/full-restart': [95, 0.3],
  'faults/nats-cluster': [75, 0.5],
  'bus/replicas': [50, 0.2],
  'deploy/python': [60, 0.5],
  'api/auth/python': [35, 0.5],
  'faults/lease-loss': [70, 0.15],
  'faults/large-states': [60, 0.5],
  'api/cancel': [55, 0.3],
  'deploy/kill': [55, 0.6],
  'deploy/deployments': [50, 0.8],
  'faults/half-open': [50, 0.15],
  'faults/harness': [60, 0.5],
  'faults/poison': [50, 0.7],
  'api/system/custom-routes': [65, 0.7],
  'graph/python': [45, 0.4],
  'host/application': [45, 0.2],
  'host/node-gate': [43, 0.15],
  'api/multitask': [40, 0.7],
  'api/python-graphs': [40, 0.4],
  'api/system/openapi': [40, 0.3],
  'faults/mongo': [40, 0.9],
  'faults/paused-worker': [40, 0.3],
  'api/thread-copy-prune-ttl': [38, 0.3],
  'console/operate': [38, 0.6],
  'faults/mongo-crons': [38, 0.5],
  'api/disconnect': [36, 0.5],
  'api/python': [36, 0.3],
  'api/encryption': [22, 0.7],
  'scripts/weft': [36, 0.4],
  'api/api-details': [35, 0.2],
  'deploy/auth': [35, 0.6],
  'deploy/langgraph-cli': [32, 0.7],
  'api/stream-resume': [34, 0.4],
  'host/run-payload': [34, 0.4],
  'api/crons': [33, 0.2],
  'api/protocols/v2-socket': [32, 0.4],
  'faults/killed-worker': [32, 0.5],
  'faults/rolling-restart': [32, 0.5],
  'scripts/guide-commands': [90, 0.5],
  'browser/tutorial': [60, 0.5],
  'browser/guide': [45, 0.8],
  'browser/use-stream-python': [45, 0.4],
  'api/examples': [45, 0.5],
  'browser/use-stream': [33, 0.4],
  'api/applications': [30, 0.3],
  'faults/python-hosts': [30, 0.4],
  'faults/isolated-graph': [30, 0.3],
  'console/chat': [28, 0.7],
  'contract/crons': [28, 0.3],
  'contract/run-stream': [28, 0.2],
  'api/control-plane/secrets-not-in-clear': [27, 0.2],
  'console/deployments': [27, 0.4],
  'api/oauth/flow': [26, 0.5],
  'api/auth/keys': [25, 0.3],
  'api/protocols/a2a': [30, 0.4],
  'api/protocols/a2a-python': [22, 0.3],
  'api/descriptions': [25, 0.5],
  'api/run-lists': [25, 0.2],
  'bus/silent-worker': [25, 0.1],
  'faults/slow-clients': [25, 0.6],
  'store/sqlite': [25, 0.5],
  'api/route-errors': [24, 0.3],
  'console/outcomes': [24, 0.6],
  'api/auth/matrix': [22, 0.8],
  'api/runs': [22, 0.3],
  'resources/run-crash-points': [22, 0.2],
  'api/auth/callers': [20, 0.5],
  'api/protocols/v2': [20, 0.7],
  'api/run-joins': [20, 0.1],
  'api/system/traces': [20, 0.2],
  'api/thread-stream': [20, 0.4],
  'api/webhooks': [20, 0.2],
  'console/shell': [20, 0.5],
  'contract/deployments': [20, 0.4],
  'deploy/build': [20, 0.6],
  'store/mongo': [20, 0.5],
  'deploy/host-user': [19, 0.5],
  'faults/malformed-frames': [18, 0.4],
  'resources/deployment-tasks': [18, 0.3],
  'api/library-lines': [17, 0.5],
  'console/threads': [16, 0.6],
  'edge/stored-streams': [16, 0.2],
  'edge/app-host': [15, 0.3],
  'console/data': [14, 0.7],
  'edge/stream-end': [14, 0.1],
  'api/system/metrics': [12, 0.2],
  'store/mongo-own': [10, 0.3],
}
const USUAL = [10, 0.4] as const

/** Above these cores a file waits for others while smaller ones take their place. */
const BUSY = 0.6

/**
 * In the order of starting. Files that keep most of a core busy come first, the busiest before all: later they would wait
 * until enough others have ended, and run alone after them. Then the longest first, so that no long file begins when all
 * others have ended.
 */
export function testFiles({ only = '', withoutBrowser, embeddedOnly }: Choice): TestFile[] {
  const names = readdirSync(join(root, 'dist/test'), { recursive: true, encoding: 'utf8' })
    .filter(path => path.endsWith('.test.js') && `dist/test/${path}`.includes(only))
    .map(path => path.replaceAll('\\', '/').slice(0, -'.test.js'.length))
    .filter(name => !(withoutBrowser && BROWSER.test(name)) && !(embeddedOnly && MONGO.test(name)))
  for (const name of [...SHARED, ...Object.keys(ONE_STORE), ...Object.keys(MEASURED)])
    if (!existsSync(join(root, `test/${name}.test.ts`)))
      throw new Error(`test-files.ts names ${name}, which does not exist`)
  const file = (name: string, onMongo: boolean): TestFile & { seconds: number } => {
    const [seconds, cores] = MEASURED[name] ?? USUAL
    const path = `dist/test/${name}.test.js`
    return {
      path,
      name: onMongo ? `${name} on MongoDB` : name,
      onMongo,
      needsMongo: onMongo || MONGO.test(name),
      shared: SHARED.includes(name),
      seconds,
      cores,
    }
  }
  const again = embeddedOnly ? [] : names.filter(name => BOTH_STORES.test(name) && !(name in ONE_STORE))
  const busy = ({ cores }: TestFile) => (cores > BUSY ? cores : 0)
  return [...names.map(name => file(name, false)), ...again.map(name => file(name, true))].sort(
    (a, b) => busy(b) - busy(a) || b.seconds - a.seconds || (a.name < b.name ? -1 : 1),
  )
}
