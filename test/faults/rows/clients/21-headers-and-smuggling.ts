import { type Ambiguous, ambiguousRequests } from '../../../helpers/ambiguous-requests.js'
import { poolingProxy } from '../../../helpers/pooling-proxy.js'
import { openRaw, type Raw } from '../../../helpers/raw.js'
import { until } from '../../../helpers/until.js'
import { quantile } from '../../harness/ledger.js'
import type { Row } from '../../harness/row.js'
import type { Stage } from '../../harness/stage.js'

const REFUSED_MS = 100
const CLOSED_MS = 1_000
/** A connection that is open after this time stays open. */
const PATIENCE_MS = 20_000
/** A request that no client sends: it is in the bytes of others. */
const SMUGGLED = 'smuggled'

interface Seen {
  name: string
  /** Milliseconds until the first byte of an answer; null: none came. */
  answered: number | null
  /** Milliseconds until the connection was closed; null: it stays open. */
  closed: number | null
}

export const row: Row = {
  number: 21,
  name: 'Headers and smuggled requests',
  fault:
    'Requests that two servers may read differently (two lengths, length and encoding, bad chunks, odd header lines) and heads ' +
    'that are too large, alone, before another request in the same bytes, and by a proxy that uses one connection for all.',
  promised:
    `No request is answered as another's, and nothing hidden in a body is executed; 400 or 431 within ${REFUSED_MS} ms (p99), ` +
    `and every connection is closed within ${CLOSED_MS / 1_000} s.`,
  oneStore: 'requests that do not become calls',
  async run(stage) {
    const rounds = stage.size(1, 5)
    const roles = await stage.roles({ edges: 1, graphs: 1 })
    const url = roles.urls[0]!
    const port = Number(new URL(url).port)
    const { body } = await stage.ledger.call<{ thread_id: string }>({ url, path: '/threads', body: {} })
    const good = (id: string) =>
      `GET /threads/${body!.thread_id} HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: ${id}\r\n\r\n`
    const hidden = '{"metadata":{"smuggled":true}}'
    const corpus = ambiguousRequests(
      `POST /threads HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: ${SMUGGLED}\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`,
    )
    const seen: Seen[] = []
    const foreign: string[] = []
    let own = 0
    for (let n = 0; n < rounds; n++) {
      const alone: Promise<void>[] = []
      for (const one of corpus) {
        const sent = sendAlone(stage, port, one).then(result => void seen.push(result))
        alone.push(sent)
        if (!one.unfinished) await sent
      }
      const together = corpus.map(async (one, i) => {
        const id = `${n}-${i}`
        const raw = openRaw(port, one.text + good(id))
        await over(raw)
        const wrong = idsOf(raw).find(answered => answered === SMUGGLED) ?? laterThan(raw, id)
        if (wrong !== undefined) foreign.push(`${one.name}: ${wrong} in the same bytes`)
      })
      const proxied = corpus.map(async (one, i) => {
        const id = `${n}-${i}-proxied`
        const wrong = await byProxy(port, one, id, good(id))
        if (wrong === null) own++
        else foreign.push(`${one.name}: ${wrong} by the proxy`)
      })
      await Promise.all([...alone, ...together, ...proxied])
    }
    stage.expect(foreign.length === 0, `${foreign.length} requests were answered as another's: ${foreign[0]}`)
    for (const line of foreign.slice(0, 20)) stage.say(`  ${line}`)
    const search = { url, path: '/threads/search', body: { metadata: { smuggled: true } } }
    const executed = (await stage.ledger.call<unknown[]>(search)).body
    stage.expect(Array.isArray(executed) && executed.length === 0, 'a hidden request was executed')
    const late = new Set(seen.filter(({ closed }) => closed === null || closed > CLOSED_MS).map(({ name }) => name))
    stage.expect(
      late.size === 0,
      `${late.size} of ${corpus.length} kinds are not closed in time, as the HTTP library waits for the rest of a head it cannot ` +
        `read: ${[...late].join(', ')}`,
    )
    const refused = quantile(
      seen.flatMap(({ answered }) => answered ?? []),
      0.99,
    )
    stage.expectTime(refused <= REFUSED_MS, `p99 of refusals was ${Math.round(refused)} ms`)
    const longest = Math.max(...seen.map(({ closed }) => closed ?? Infinity)) / 1_000
    return {
      load:
        `${corpus.length} kinds of requests alone, one after the other, then all at once before another one and in the proxy; ` +
        `${rounds === 1 ? 'once' : `${rounds} times`}`,
      measured:
        `${foreign.length} answered as another's, ${own} of ${rounds * corpus.length} requests behind them in the proxy got their ` +
        `own answer; refused after ${Math.round(refused)} ms (p99), closed after ${longest.toFixed(1)} s at most, ` +
        `${corpus.length - late.size} of ${corpus.length} kinds within ${CLOSED_MS / 1_000} s`,
    }
  },
}

async function sendAlone(stage: Stage, port: number, { name, text, statuses }: Ambiguous): Promise<Seen> {
  const since = performance.now()
  const raw = openRaw(port, text)
  let answered: number | null = null
  raw.socket.once('data', () => (answered = performance.now() - since))
  const closed = (await over(raw)) ? performance.now() - since : null
  const got = statusesOf(raw)
  stage.expect(
    got.length <= 1 && got.every(status => statuses.includes(status)),
    `${name} was answered ${got.join(' and ')}`,
  )
  return { name, answered, closed }
}

/** The request behind it in the proxy: null when its client got the answer to it, at once or after a repetition. */
async function byProxy(port: number, { text }: Ambiguous, id: string, good: string): Promise<string | null> {
  const proxy = await poolingProxy(port)
  try {
    const first = openRaw(proxy.port, text)
    await until(() => proxy.passed() >= Buffer.byteLength(text))
    // An answer is closed by the proxy; a request without one is repeated by its client, as proxies and browsers do.
    for (let attempt = 1; attempt <= 3; attempt++) {
      const second = openRaw(proxy.port, good)
      if (!(await over(second))) return 'no answer'
      const [answer] = idsOf(second)
      if (statusesOf(second).length === 0) continue
      if (answer !== id) return `answered ${second.text().split('\r\n', 1)} (${answer ?? 'no id'})`
      if (idsOf(first).some(other => other === SMUGGLED || other === id)) return `${idsOf(first)} at the first client`
      return null
    }
    return 'no answer'
  } finally {
    await proxy.stop()
  }
}

/** Waits until the connection is closed; false: it stays open. */
async function over(raw: Raw): Promise<boolean> {
  let timer: NodeJS.Timeout
  const open = new Promise<boolean>(done => {
    timer = setTimeout(() => {
      raw.socket.destroy()
      done(false)
    }, PATIENCE_MS)
  })
  return Promise.race([raw.closed.then(() => true), open]).finally(() => clearTimeout(timer))
}

/** Answers behind the first one are those of the request behind it. */
const laterThan = (raw: Raw, id: string): string | undefined => {
  const [, ...rest] = statusesOf(raw)
  if (rest.length === 0) return
  return rest.length === 1 && idsOf(raw).at(-1) === id ? undefined : `${rest.length + 1} answers`
}

const statusesOf = (raw: Raw) => [...raw.text().matchAll(/HTTP\/1\.[01] (\d{3})/g)].map(([, status]) => Number(status))
const idsOf = (raw: Raw) => [...raw.text().matchAll(/\r\nx-request-id: ([^\r]*)/gi)].map(([, id]) => id!)
