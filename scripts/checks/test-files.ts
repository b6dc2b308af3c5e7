/** Which test files run, on which store, in which order, and how many cores each keeps busy. */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../cli/root.js'

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
  'api/protocols/resume-graph',
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
  'api/protocols/a2a': 'requests of the edge to the API, which other files test',
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
  'faults/half-open': 'the connection of a graph worker to the broker',
  'api/disconnect': 'connections of clients; its runs are rows as those of api/cancel',
  'api/run-failure-log': 'a line of the log',
  'api/system/application-file': 'what a langgraph.json says; its rows are those of api/runs and api/webhooks',
  'api/system/config': 'a merge of configs; its runs are rows as those of api/runs',
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
  'api/auth/matrix-beside': 'the rows of api/auth/matrix, by the auth of another application',
  'api/too-large-states': 'a state that does not reach the store',
  'api/cancel-hosts': 'what hosts do with a stopped run; its rows are those of api/cancel',
  'faults/part-restarts': 'restarts of one process; their rows are those of faults/full-restart and killed-worker',
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
  'deploy/kill-matrix': [49, 0.55],
  'deploy/kill-matrix-engines': [38, 0.55],
  'faults/host-crashes': [65, 0.7],
  'faults/harness': [48, 0.9],
  'api/system/custom-routes': [48, 0.85],
  'browser/guide': [45, 0.8],
  'scripts/guide-commands': [53, 0.7],
  'deploy/python': [32, 0.9],
  'faults/full-restart': [104, 0.35],
  'faults/nats-cluster': [42, 0.8],
  'faults/mongo': [37, 0.9],
  'faults/poison': [29, 0.9],
  'deploy/kill': [42, 0.75],
  'scripts/bench': [42, 0.75],
  'api/examples': [64, 0.45],
  'api/encryption': [37, 0.8],
  'browser/tutorial': [60, 0.5],
  'deploy/deployments': [42, 0.7],
  'api/large-values': [27, 0.9],
  'api/protocols/a2a': [56, 0.5],
  'faults/killed-worker': [29, 0.9],
  'api/system/hosts': [29, 0.85],
  'api/auth/matrix': [28, 0.9],
  'faults/large-states': [32, 0.7],
  'console/operate': [38, 0.6],
  'api/large-streams': [30, 0.75],
  'graph/python': [30, 0.7],
  'api/cancel': [68, 0.3],
  'faults/lease-loss': [79, 0.25],
  'console/chat': [28, 0.7],
  'api/multitask': [56, 0.35],
  'deploy/images': [46, 0.4],
  'browser/use-stream-python': [45, 0.4],
  'faults/rolling-restart': [21, 0.85],
  'deploy/langgraph-cli': [38, 0.45],
  'api/python-graphs': [42, 0.4],
  'cli/client-commands': [33, 0.55],
  'api/python': [59, 0.3],
  'api/system/openapi': [36, 0.45],
  'api/thread-copy-prune-ttl': [52, 0.3],
  'api/auth/python': [29, 0.55],
  'faults/mongo-crons': [33, 0.45],
  'console/outcomes': [24, 0.6],
  'faults/python-hosts': [34, 0.4],
  'host/run-payload': [20, 0.7],
  'cli/weft': [25, 0.55],
  'deploy/auth': [20, 0.65],
  'browser/use-stream': [33, 0.4],
  'faults/slow-clients': [12, 1.05],
  'store/mongo': [19, 0.65],
  'host/conformance': [31, 0.4],
  'api/disconnect': [19, 0.65],
  'faults/paused-worker': [65, 0.15],
  'cli/command-output': [22, 0.5],
  'deploy/host-user': [15, 0.75],
  'console/deployments': [27, 0.4],
  'cli/one-machine': [15, 0.7],
  'store/sqlite': [15, 0.7],
  'console/shell': [20, 0.5],
  'console/data': [14, 0.7],
  'api/protocols/v2-socket': [17, 0.55],
  'console/threads': [16, 0.6],
  'console/thread-graphs': [25, 0.5],
  'deploy/push': [18, 0.55],
  'deploy/scaling': [22, 0.45],
  'api/descriptions': [12, 0.8],
  'api/control-plane/deployments': [9, 1],
  'host/static-schemas': [10, 0.9],
  'api/auth/callers': [20, 0.45],
  'faults/mongo-clock': [19, 0.45],
  'api/auth/keys': [25, 0.55],
  'bus/lane': [9, 0.95],
  'api/applications': [27, 0.3],
  'api/fuzz': [10, 0.85],
  'api/protocols/v2': [19, 0.4],
  'api/library-lines': [21, 0.4],
  'edge/app-host': [15, 0.5],
  'api/run-lists': [30, 0.25],
  'api/oauth/flow': [19, 0.4],
  'contract/deployments': [7, 1.05],
  'api/route-errors': [31, 0.25],
  'contract/crons': [16, 0.45],
  'faults/half-open': [39, 0.2],
  'store/mongo-outage': [13, 0.55],
  'api/control-plane/key': [13, 0.55],
  'faults/malformed-frames': [8, 0.85],
  'faults/isolated-graph': [25, 0.25],
  'api/control-plane/secrets-not-in-clear': [18, 0.35],
  'host/application': [50, 0.15],
  'deploy/uploads': [16, 0.4],
  'api/store/semantic-search': [8, 0.8],
  'deploy/build': [11, 0.55],
  'deploy/fetch': [12, 0.5],
  'contract/run-stream': [14, 0.4],
  'bus/replicas': [61, 0.1],
  'api/threads': [14, 0.4],
  'resources/oauth/tokens': [15, 0.4],
  'api/crons': [34, 0.15],
  'api/api-details': [41, 0.15],
  'resources/lease': [26, 0.2],
  'cli/leaf-nodes': [16, 0.3],
  'api/protocols/mcp': [16, 0.3],
  'deploy/replica': [14, 0.35],
  'deploy/kubernetes/driver': [16, 0.3],
  'resources/mongo-vector-search': [16, 0.3],
  'resources/crons/firing': [15, 0.3],
  'faults/store-locked': [15, 0.3],
  'host/guards/node-gate': [42, 0.1],
  'api/stream-resume': [16, 0.25],
  'api/webhooks': [19, 0.2],
  'bus/silent-worker': [22, 0.15],
  'resources/hand-over': [16, 0.2],
  'api/system/traces': [21, 0.15],
  'edge/streams/stored-streams': [16, 0.15],
  'api/runs': [15, 0.1],
  'api/run-joins': [22, 0.05],
}
const USUAL = [4, 0.4] as const

/** In the order of starting: the longest first, so that no long file begins when all others have ended. */
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
  return [...names.map(name => file(name, false)), ...again.map(name => file(name, true))].sort(
    (a, b) => b.seconds - a.seconds || (a.name < b.name ? -1 : 1),
  )
}
