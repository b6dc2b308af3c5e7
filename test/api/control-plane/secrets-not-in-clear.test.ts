/**
 * No secret appears in clear text: not in the files of the store or the broker, not in logs, answers, errors or the
 * process list (API: control-plane 8.2). The search covers text, base64 and UTF-16.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Deployment } from '../../../schemas/deployments.js'
import { startRoles } from '../../helpers/cluster.js'
import { github, image, KEY, openControl, openDeployer } from '../../helpers/control.js'

t.setTimeout(180_000)

const CANARY = 'canary-7f3a9c51e8d24b06'

/** Every file below, with any name. */
function* filesBelow(folder: string): Generator<string> {
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true }))
    if (entry.isFile()) yield join(entry.parentPath, entry.name)
}

const base64 = (text: string) => Buffer.from(text).toString('base64').replace(/=+$/, '')
const FORMS = (text: string): Buffer[] => [
  Buffer.from(text),
  // At any position in a longer text: without the characters that depend on its neighbours.
  ...[0, 1, 2].map(shift => Buffer.from(base64('x'.repeat(shift) + text).slice(4, -4))),
  Buffer.from(text, 'utf16le'),
]

/** The encodings in which these bytes contain the text. */
const holds = (bytes: Uint8Array, text: string): boolean => FORMS(text).some(form => Buffer.from(bytes).includes(form))

/** The arguments of every visible process of this machine. */
const commandLines = (): Buffer[] =>
  readdirSync('/proc')
    .filter(name => /^\d+$/.test(name) && name !== `${process.pid}`)
    .flatMap(pid => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`)
      } catch {
        return []
      }
    })

t.test('the search of this test finds a planted secret', async (t: Test) => {
  for (const text of [CANARY, `{"a":"${CANARY}"}`, base64(`ab${CANARY}`), base64(`a${CANARY} and more`)])
    t.ok(holds(Buffer.from(text), CANARY), text)
  t.notOk(holds(Buffer.from('nothing'), CANARY))
})

t.test('no secret appears in clear text outside of its owner', async t => {
  const env = { WEFT_CONTROL_KEY: KEY, LOG_LEVEL: 'debug' }
  const roles = await startRoles({ env })
  t.teardown(() => roles.stop())
  const call = openControl(roles.urls[0]!)
  const answers: string[] = []
  const say = async (method: string, path: string, body?: unknown, headers = {}) => {
    const answer = await call<Deployment>(method, path, body, headers)
    answers.push(answer.text, JSON.stringify([...answer.headers]))
    return answer
  }
  const secrets = [{ name: 'TOKEN', value: CANARY }]
  const { body: made } = await say('POST', '/v2/deployments', github('canary', { secrets }), {
    'idempotency-key': 'k1',
  })
  await say('POST', '/v2/deployments', image('canary-2', { secrets }))
  await say('PATCH', `/v2/deployments/${made.id}`, { secrets: [...secrets, { name: 'OTHER', value: `x${CANARY}` }] })
  await say('GET', `/v2/deployments/${made.id}`)
  await say('GET', '/v2/deployments')
  const provider = {
    provider_id: 'canary',
    name: 'C',
    client_id: 'c',
    auth_url: 'https://a.example/a',
    token_url: 'https://a.example/t',
    client_secret: CANARY,
  }
  await say('POST', '/v2/auth/providers', provider)
  await say('PATCH', '/v2/auth/providers/canary', { client_secret: `y${CANARY}` })
  await say('GET', '/v2/auth/providers')

  const wrong: [string, string, unknown][] = [
    [
      'POST',
      '/v2/deployments',
      {
        ...github('c3'),
        secrets: [
          { name: CANARY, value: 1 },
          { name: 'A', value: { x: CANARY } },
        ],
      },
    ],
    ['POST', '/v2/deployments', { ...github('c3'), secrets: [{ name: `${CANARY} -`, value: CANARY }] }],
    ['POST', '/v2/deployments', { ...github('c3'), secrets: CANARY }],
    [
      'POST',
      '/v2/deployments',
      {
        ...github('c3'),
        secrets: [
          { name: 'A', value: CANARY },
          { name: 'A', value: CANARY },
        ],
      },
    ],
    ['POST', '/v2/deployments', { ...github('c3'), secrets: [{ name: 'PATH', value: CANARY }] }],
    ['POST', '/v2/deployments', { ...github('c3'), secrets: [{ name: 'A', value: `${CANARY}\0` }] }],
    [
      'POST',
      '/v2/deployments',
      { ...github('c3', { secrets }), source_config: { repo_url: `https://u:${CANARY}@example.com/a` } },
    ],
    ['POST', '/v2/deployments', { ...github('c3', { secrets }), source: CANARY }],
    ['POST', '/v2/deployments', `{"name":"c3","secrets":[{"name":"A","value":"${CANARY}"`],
    ['POST', '/v2/deployments', `{"secrets":${CANARY}}`],
    ['POST', '/v2/deployments', github('canary', { secrets })],
    [
      'PATCH',
      `/v2/deployments/${made.id}`,
      { secrets: [{ name: 'A', value: CANARY }], source_config: { repo_url: CANARY } },
    ],
    ['PATCH', '/v2/auth/providers/canary', { client_secret: [CANARY] }],
    ['PATCH', '/v2/auth/providers/canary', { client_secret: CANARY, auth_url: `https://u:${CANARY}@a.example` }],
    ['POST', '/v2/auth/providers', { ...provider, client_secret: CANARY, token_url: CANARY }],
  ]
  for (const [method, path, body] of wrong) {
    const { status } = await say(method, path, body)
    t.ok(status >= 400 && status < 500, `${method} ${JSON.stringify(body).slice(0, 60)}: ${status}`)
  }

  const deployer = await openDeployer(roles.nats.url('deployer'))
  t.teardown(() => deployer.close())
  const order = (await deployer.claim(['github']))!
  t.same(order.env, { TOKEN: CANARY }, 'a deploy worker is given it')
  await deployer.log(order, 'build', [
    { t: Date.now(), level: 'info', text: `export TOKEN=${CANARY}; git clone https://t:${CANARY}@example.com` },
  ])
  await deployer.advance(order, 'BUILDING')
  await deployer.advance(order, 'BUILD_FAILED', { message: `exit 1: ${CANARY}` })
  await say('POST', `/v1/projects/${made.id}/revisions/${order.revision_id}/build_logs`, { limit: 100 })
  await say('GET', `/v2/deployments/${made.id}/revisions`)
  await t.rejects(deployer.ask('log', { deployment_id: CANARY, revision_id: CANARY, stage: 'x', lines: [] }))

  for (const role of ['graphs', 'edge'] as const) {
    const other = await openDeployer(roles.nats.url(role), role)
    await t.rejects(other.claim(), `${role} is not given an order`)
    await other.close()
  }

  const found = (what: string, bytes: Uint8Array) => t.notOk(holds(bytes, CANARY), `not in ${what}`)
  for (const [i, text] of answers.entries()) found(`answer ${i}: ${text.slice(0, 60)}`, Buffer.from(text))
  for (const line of commandLines()) found(`the arguments of ${line.toString().slice(0, 40)}`, line)
  const files = () => {
    let n = 0
    for (const file of filesBelow(roles.nats.data)) {
      n++
      found(file, readFileSync(file))
    }
    return n
  }
  t.ok(files() > 5, 'files while it runs: database, its log, the broker’s streams')
  const procs = [...roles.edges, ...roles.resources, ...roles.graphs]
  for (const proc of procs) await proc.stop()
  for (const proc of procs) found('the output of a role', Buffer.from(proc.output()))
  t.ok(
    procs.some(({ output }) => output().includes('rpc.deployments.create')),
    'calls are logged',
  )
  t.ok(files() > 5, 'files after an orderly stop')
})
