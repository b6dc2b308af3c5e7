/** Which test files run, on which store, in which order, and how many cores each keeps busy. */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../cli/root.js'

export type TestStore = 'sqlite' | Server
export type Server = keyof typeof SERVERS
/** Database servers, by the name of the store, as people call them. */
export const SERVERS = { mongo: 'MongoDB', postgres: 'PostgreSQL' } as const

export interface TestFile {
  /** Path of the compiled file below the root. */
  path: string
  /** The name in the report: "api/runs", "api/runs on MongoDB". */
  name: string
  store: TestStore
  /** The servers that it uses: those of the test run, except for those that it kills. */
  needs: readonly Server[]
  /** It can use the server of other files. */
  shared: boolean
  /** Cores that it keeps busy with its processes, on average over its time on an idle machine. */
  cores: number
}

export interface Choice {
  /** Only files whose path contains one of these texts, separated by commas. */
  only?: string | undefined
  /** Not those that need a browser on this machine. */
  withoutBrowser: boolean
  /** Not those that need a database server. */
  embeddedOnly: boolean
  /** All that depends on stored rows runs on each store. */
  allStores?: boolean
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
/** Files that need a server in any case. */
const NEEDS = /(?:^|\/)(mongo|postgres)[\w-]*$/
/**
 * The files that run on each database server, too, and why: the short set of faults, and one file for each family of calls whose answers
 * depend on stored rows. The rows themselves are compared by the conformance suite of store/. --all-stores runs all of ROWS.
 */
const EVERY_STORE: { readonly [name: string]: string } = {
  'faults/full-restart': 'faults: the server dies between two writes',
  'faults/killed-worker': 'faults: runs are taken over',
  'faults/rolling-restart': 'faults: workers stop while runs go on',
  'faults/broker-wiped': 'faults: wake-ups are found again in the store',
  'faults/paused-resources': 'faults: calls wait for a resource worker',
  'faults/webhook-deliveries': 'faults: deliveries are repeated',
  'faults/large-states': 'faults: large values that are in several parts',
  'api/assistants': 'assistants and their versions',
  'api/auth/callers': 'filters of owners',
  'api/control-plane/deployments': 'the control plane',
  'api/control-plane/secrets-not-in-clear': 'bytes of the store',
  'api/crons': 'crons',
  'api/delayed-runs': 'runs that are due later',
  'api/large-values': 'large values',
  'api/oauth/flow': 'tokens and consents',
  'api/run-lists': 'lists, pages and counts of runs',
  'api/runs': 'runs',
  'api/runs/rates': 'runs that are counted by their claims',
  'api/runs/search': 'searches and counts over all runs',
  'api/store/items': 'items',
  'api/store/semantic-search': 'vectors',
  'api/thread-copy-prune-ttl': 'threads: copies, prunes, expiry',
  'api/thread-state': 'states and histories',
  'api/threads': 'threads: searches and counts',
  'api/webhooks': 'deliveries of webhooks',
}
const ROWS = /^(api|contract|faults)\//
/** Locks the file of the embedded store. */
const EMBEDDED = 'faults/store-locked'

/**
 * [seconds, cores] of files that differ from the rest, measured on two cores: the time, and the CPU time of a file and its
 * processes divided by it. Others count as USUAL.
 */
const MEASURED: { readonly [name: string]: readonly [seconds: number, cores: number] } = {
  'deploy/kill-matrix': [126, 0.55],
  'scripts/guide-commands': [105, 0.7],
  'deploy/kill-matrix-engines': [84, 0.55],
  'deploy/sandbox': [32, 0.9],
  'faults/lease-loss': [79, 0.25],
  'faults/late-nodes': [79, 0.4],
  'api/examples/delegate': [72, 0.3],
  'api/cancel': [68, 0.3],
  'faults/host-crashes': [65, 0.7],
  'faults/paused-worker': [65, 0.15],
  'api/examples': [64, 0.45],
  'bus/replicas': [61, 0.1],
  'faults/postgres-balancers': [60, 0.8],
  'console/runs': [60, 0.4],
  'api/python': [59, 0.3],
  'api/protocols/a2a': [56, 0.5],
  'api/multitask': [56, 0.35],
  'faults/full-restart': [55, 0.2],
  'api/thread-copy-prune-ttl': [52, 0.3],
  'host/application': [50, 0.15],
  'compare/official': [50, 0.4],
  'faults/harness': [48, 0.9],
  'api/system/custom-routes': [48, 0.85],
  'deploy/images': [46, 0.4],
  'browser/use-stream-python': [45, 0.4],
  'faults/isolated-graph': [45, 0.25],
  'faults/nats-cluster': [42, 0.8],
  'deploy/kill': [42, 0.75],
  'scripts/bench': [42, 0.75],
  'deploy/deployments': [42, 0.7],
  'api/python-graphs': [42, 0.4],
  'host/guards/node-gate': [42, 0.1],
  'api/api-details': [41, 0.15],
  'faults/half-open': [39, 0.2],
  'console/pages': [39, 0.4],
  'console/operate': [38, 0.6],
  'deploy/langgraph-cli': [38, 0.45],
  'deploy/cluster-files': [38, 0.4],
  'faults/mongo': [37, 0.9],
  'api/encryption/handlers': [37, 0.8],
  'console/night': [37, 0.4],
  'api/system/openapi': [36, 0.45],
  'faults/postgres': [36, 0.4],
  'faults/part-restarts': [35, 0.4],
  'faults/postgres-replica': [35, 0.4],
  'faults/python-hosts': [34, 0.4],
  'api/crons': [34, 0.15],
  'browser/tutorial': [33, 0.5],
  'cli/client-commands': [33, 0.55],
  'faults/mongo-crons': [33, 0.45],
  'browser/use-stream': [33, 0.4],
  'deploy/python': [32, 0.9],
  'faults/large-states': [32, 0.7],
  'host/conformance': [31, 0.4],
  'api/cancel-hosts': [31, 0.4],
  'handler/asgi': [30, 0.6],
  'api/large-streams': [30, 0.75],
  'graph/python': [30, 0.7],
  'api/protocols/v2-socket': [30, 0.55],
  'api/run-lists': [30, 0.25],
  'cli/import-sources': [30, 0.4],
  'faults/poison': [29, 0.9],
  'faults/killed-worker': [29, 0.9],
  'api/system/hosts': [29, 0.85],
  'api/auth/python': [29, 0.55],
  'api/auth/matrix': [28, 0.9],
  'console/chat': [28, 0.7],
  'api/runs/scheduling': [28, 0.4],
  'bus/tunnel': [28, 0.4],
  'faults/postgres-restore': [28, 0.4],
  'api/large-values': [27, 0.9],
  'console/deployments': [27, 0.4],
  'api/applications': [27, 0.3],
  'cli/weft': [25, 0.55],
  'console/thread-graphs': [25, 0.5],
  'api/auth/keys': [25, 0.55],
  'console/outcomes': [24, 0.6],
  'cli/upgrade': [24, 0.4],
  'api/auth/keys-behind-middleware': [23, 0.4],
  'bus/stream-watch': [23, 0.4],
  'browser/guide': [22, 0.8],
  'cli/command-output': [22, 0.5],
  'deploy/scaling': [22, 0.45],
  'bus/silent-worker': [22, 0.15],
  'api/run-joins': [22, 0.05],
  'browser/docs': [22, 0.4],
  'console/inbox': [22, 0.4],
  'edge/streams/create-outage': [22, 0.4],
  'graph/supervisor': [22, 0.4],
  'faults/rolling-restart': [21, 0.85],
  'api/library-lines': [21, 0.4],
  'api/system/traces': [21, 0.15],
  'browser/app-pages': [21, 0.4],
  'console/logs': [21, 0.4],
  'host/run-payload': [20, 0.7],
  'console/shell': [20, 0.5],
  'api/auth/callers': [20, 0.45],
  'store/mongo': [19, 0.65],
  'api/disconnect': [19, 0.65],
  'faults/mongo-clock': [19, 0.45],
  'api/protocols/v2': [19, 0.4],
  'api/oauth/flow': [19, 0.4],
  'api/webhooks': [19, 0.2],
  'faults/paused-resources': [19, 0.4],
  'store/postgres-own': [19, 0.4],
  'store/postgres-vectors': [19, 0.4],
  'deploy/push': [18, 0.55],
  'api/control-plane/secrets-not-in-clear': [18, 0.35],
  'store/postgres-plans': [18, 0.4],
  'browser/langchain-react': [17, 0.4],
  'bus/pool-users': [17, 0.4],
  'console/threads': [16, 0.6],
  'contract/crons': [16, 0.45],
  'deploy/uploads': [16, 0.4],
  'cli/leaf-nodes': [16, 0.3],
  'api/protocols/mcp': [16, 0.3],
  'resources/mongo-vector-search': [16, 0.3],
  'api/stream-resume': [16, 0.25],
  'resources/hand-over': [16, 0.2],
  'edge/streams/stored-streams': [16, 0.15],
  'api/auth/matrix-beside': [16, 0.4],
  'api/system/custom-route-paths': [16, 0.4],
  'api/thread-stream': [16, 0.4],
  'console/waterfall': [16, 0.4],
  'scripts/installed': [16, 0.4],
  'handler/server': [15, 0.7],
  'api/encryption/states': [15, 0.8],
  'host/sandbox': [15, 0.8],
  'deploy/host-user': [15, 0.75],
  'cli/one-machine': [15, 0.7],
  'store/sqlite': [15, 0.7],
  'edge/app-host': [15, 0.5],
  'resources/oauth/tokens': [15, 0.4],
  'resources/crons/firing': [15, 0.3],
  'faults/store-locked': [15, 0.3],
  'api/runs': [15, 0.1],
  'console/data': [14, 0.7],
  'contract/run-stream': [14, 0.4],
  'api/threads': [14, 0.4],
  'resources/lease': [14, 0.2],
  'deploy/replica': [14, 0.35],
  'deploy/host-user-attack': [14, 0.4],
  'api/route-errors': [13, 0.25],
  'store/mongo-outage': [13, 0.55],
  'api/control-plane/key': [13, 0.55],
  'api/runs/spans': [13, 0.4],
  'api/system/logs': [13, 0.4],
  'faults/webhook-deliveries': [13, 0.4],
  'faults/slow-clients': [12, 1.05],
  'api/descriptions': [12, 0.8],
  'deploy/fetch': [12, 0.5],
  'api/system/metrics': [12, 0.4],
  'bus/tls-rotation': [12, 0.4],
  'edge/limits': [12, 0.4],
  'edge/self-calls': [12, 0.4],
  'faults/slow-broker': [12, 0.4],
  'deploy/auth': [11, 0.65],
  'deploy/build': [11, 0.55],
  'api/system/otlp-metrics': [11, 0.4],
  'bus/stream': [11, 0.4],
  'edge/app-host-bodies': [11, 0.4],
  'edge/chunked-requests': [11, 0.4],
  'edge/streams/stream-end': [11, 0.4],
  'graph/app-files': [11, 0.4],
  'handler/frameworks': [10, 0.6],
  'host/static-schemas': [10, 0.9],
  'api/fuzz': [10, 0.85],
  'console/assistants': [10, 0.4],
  'edge/streams/run-wait': [10, 0.4],
  'edge/watch': [10, 0.4],
  'graph/host-calls': [10, 0.4],
  'store/postgres': [10, 0.4],
  'api/control-plane/deployments': [9, 1],
  'bus/lane': [9, 0.95],
  'api/auth/deployed': [9, 0.4],
  'api/protocols/a2a-python': [9, 0.4],
  'applications/applications': [9, 0.4],
  'cli/new': [9, 0.4],
  'deploy/docker/driver': [9, 0.4],
  'host/host': [9, 0.4],
  'resources/run-crash-points': [9, 0.4],
  'faults/malformed-frames': [8, 0.85],
  'api/store/semantic-search': [8, 0.8],
  'api/runs/langsmith': [8, 0.4],
  'api/runs/search': [8, 0.4],
  'deploy/host-node': [8, 0.4],
  'contract/deployments': [7, 1.05],
  'deploy/kubernetes/driver': [7, 0.3],
}
const USUAL = [4, 0.4] as const

/** In the order of starting: the longest first, so that no long file begins when all others have ended. */
/** Whether `--only` selects what has this name. */
export const isSelected = (name: string, only: string | undefined): boolean =>
  only === undefined || only.split(',').some(part => name.includes(part))

export function testFiles({ only, withoutBrowser, embeddedOnly, allStores = false }: Choice): TestFile[] {
  const names = readdirSync(join(root, 'dist/test'), { recursive: true, encoding: 'utf8' })
    .filter(path => path.endsWith('.test.js') && isSelected(`dist/test/${path}`, only))
    .map(path => path.replaceAll('\\', '/').slice(0, -'.test.js'.length))
    .filter(name => !(withoutBrowser && BROWSER.test(name)) && !(embeddedOnly && NEEDS.test(name)))
  for (const name of [...SHARED, ...Object.keys(EVERY_STORE), ...Object.keys(MEASURED)])
    if (!existsSync(join(root, `test/${name}.test.ts`)))
      throw new Error(`test-files.ts names ${name}, which does not exist`)
  const file = (name: string, store: TestStore): TestFile & { seconds: number } => {
    const [seconds, cores] = MEASURED[name] ?? USUAL
    const path = `dist/test/${name}.test.js`
    return {
      path,
      name: store === 'sqlite' ? name : `${name} on ${SERVERS[store]}`,
      store,
      needs: store === 'sqlite' ? ([NEEDS.exec(name)?.[1] ?? []].flat() as Server[]) : [store],
      shared: SHARED.includes(name),
      seconds,
      cores,
    }
  }
  const isRepeated = (name: string) =>
    allStores ? ROWS.test(name) && !NEEDS.test(name) && name !== EMBEDDED : Object.hasOwn(EVERY_STORE, name)
  const again = embeddedOnly ? [] : names.filter(isRepeated)
  const servers = Object.keys(SERVERS) as Server[]
  return [
    ...names.map(name => file(name, 'sqlite')),
    ...servers.flatMap(store => again.map(name => file(name, store))),
  ].sort((a, b) => b.seconds - a.seconds || (a.name < b.name ? -1 : 1))
}
