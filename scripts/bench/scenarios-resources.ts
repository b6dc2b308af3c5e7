/** Assistants, threads and their state. */
import { type Connection, requestText } from './http.js'
import { type Client, closedLoop, type Operation } from './load.js'
import type { Bench, Scenario } from './scenario.js'
import { check, shown } from './wrong.js'

/** Resources that each client reads in turn. */
const KEPT = 20
const CLIENTS = 64
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

export const RESOURCES: readonly Scenario[] = [
  {
    ...requests('create-assistant', 'POST /assistants with metadata', 8_000),
    run: bench => rate(bench, ({ connection }, n) => createAssistant(connection, n)),
  },
  {
    ...requests('create-thread', 'POST /threads with metadata', 8_000),
    run: bench => rate(bench, ({ connection }, n) => createThread(connection, n)),
  },
  {
    ...requests('get-assistant', 'GET /assistants/{id}', 12_000),
    run: bench => getting(bench, createAssistant, 'assistant_id', '/assistants/'),
  },
  {
    ...requests('get-thread', 'GET /threads/{id}'),
    run: bench => getting(bench, createThread, 'thread_id', '/threads/'),
  },
  { ...requests('thread-state', 'GET /threads/{id}/state after a run of 3 steps', 12_000), run: threadState },
  { ...requests('search-assistants', 'POST /assistants/search by metadata'), run: searchAssistants },
]

export function requests(name: string, what: string, target?: number): Omit<Scenario, 'run'> {
  return { name, what, unit: '/s', better: 'more', per: 'request', ...(target === undefined ? {} : { target }) }
}

export async function rate(
  { server, warm, seconds, meter, quick }: Bench,
  operation: Operation,
  prepare?: (client: Client) => Promise<void>,
  clients = quick ? 8 : CLIENTS,
) {
  const loop = { port: server.port, clients, warm, seconds, meter, ...(prepare && { prepare }) }
  const { perSecond, latency, count } = await closedLoop(loop, operation)
  return { value: perSecond, latency, operations: count }
}

/** Creates some, then reads them in turn; each answer must equal the one of the create call. */
async function getting(
  bench: Bench,
  create: (connection: Connection, n: number) => Promise<Resource>,
  id: 'assistant_id' | 'thread_id',
  path: string,
) {
  const kept: { request: string; made: Resource }[][] = []
  return rate(
    bench,
    async ({ index, connection }, n) => {
      const { request, made } = kept[index]![n % KEPT]!
      const found = await askJson<Resource>(connection, request)
      check(found[id] === made[id], () => `${made[id]} was asked for, not ${found[id]}`)
      check(found.metadata?.n === made.metadata?.n, () => `${path}${made[id]} has other metadata: ${shown(found)}`)
      check(found.created_at === made.created_at, () => `${path}${made[id]} was made at another time: ${shown(found)}`)
    },
    async ({ index, connection }) => {
      const mine: { request: string; made: Resource }[] = []
      for (let i = 0; i < KEPT; i++) {
        const made = await create(connection, i)
        mine.push({ request: requestText('GET', `${path}${made[id]}`), made })
      }
      kept[index] = mine
    },
  )
}

interface Resource {
  assistant_id?: string
  thread_id?: string
  graph_id?: string
  status?: string
  created_at?: string
  metadata?: { n?: number }
}

interface State {
  values?: { done?: number }
  next?: unknown[]
  checkpoint?: { thread_id?: string; checkpoint_id?: string }
}

async function createAssistant(connection: Connection, n: number): Promise<Resource> {
  const body = { graph_id: 'echo', name: `bench ${n}`, metadata: { n, of: 'bench' } }
  const made = await askJson<Resource>(connection, requestText('POST', '/assistants', body))
  check(UUID.test(made.assistant_id ?? ''), () => `the assistant has no id: ${shown(made)}`)
  check(made.graph_id === 'echo' && made.metadata?.n === n, () => `another assistant was made: ${shown(made)}`)
  return made
}

export async function createThread(connection: Connection, n: number): Promise<Resource & { thread_id: string }> {
  const made = await askJson<Resource>(connection, requestText('POST', '/threads', { metadata: { n, of: 'bench' } }))
  const { thread_id, status, metadata } = made
  check(thread_id !== undefined && UUID.test(thread_id), () => `the thread has no id: ${shown(made)}`)
  check(status === 'idle' && metadata?.n === n, () => `another thread was made: ${shown(made)}`)
  return { ...made, thread_id }
}

/** Each client finds the assistants that it made, among those of all. */
function searchAssistants(bench: Bench) {
  const kept: { request: string; ids: string }[] = []
  return rate(
    bench,
    async ({ index, connection }) => {
      const { request, ids } = kept[index]!
      const found = await askJson<Resource[]>(connection, request)
      check(idsOf(found) === ids, () => `other assistants were found: ${shown(found)}`)
    },
    async ({ index, connection }) => {
      const metadata = { client: index, of: `search ${Date.now()}` }
      const made: Resource[] = []
      for (let n = 0; n < 5; n++) {
        const body = { graph_id: 'echo', name: `bench ${n}`, metadata }
        made.push(await askJson<Resource>(connection, requestText('POST', '/assistants', body)))
      }
      kept[index] = { request: requestText('POST', '/assistants/search', { metadata }), ids: idsOf(made) }
    },
  )
}

const idsOf = (all: readonly Resource[]): string =>
  all
    .map(({ assistant_id }) => assistant_id)
    .sort()
    .join()

function threadState(bench: Bench) {
  const kept: string[][] = []
  const steps = 3
  return rate(
    bench,
    async ({ index, connection }, n) => {
      const id = kept[index]![n % kept[index]!.length]!
      const state = await askJson<State>(connection, requestText('GET', `/threads/${id}/state`))
      check(state.checkpoint?.thread_id === id, () => `the state of ${id} was asked for: ${shown(state)}`)
      check(state.values?.done === steps, () => `the state should say done: ${steps}: ${shown(state)}`)
      check(
        Array.isArray(state.next) && state.next.length === 0,
        () => `the thread should be at its end: ${shown(state)}`,
      )
    },
    async ({ index, connection }) => {
      const mine: string[] = []
      for (let i = 0; i < 4; i++) {
        const { thread_id } = await createThread(connection, i)
        const run = { assistant_id: 'steps', input: { count: steps } }
        await askJson(connection, requestText('POST', `/threads/${thread_id}/runs/wait`, run))
        mine.push(thread_id)
      }
      kept[index] = mine
    },
  )
}

/** The body of a 200 as JSON. */
export async function askJson<T>(connection: Connection, request: string): Promise<T> {
  const { status, body } = await connection.ask(request)
  check(status === 200, () => `HTTP ${status}: ${shown(body)}`)
  try {
    return JSON.parse(body) as T
  } catch {
    check(false, () => `the answer is no JSON: ${shown(body)}`)
  }
}
