/** Calls of the control plane that carry a secret, among them ones that are refused (docs/spec/control-plane.md#secrets). */
import type { Deployment } from '../../../schemas/deployments.js'
import { type Answered, type Control, type Deployer, github, image } from '../../helpers/control.js'

export interface SecretCalls {
  /** With the secret TOKEN, and OTHER that contains it. */
  made: Deployment
  /** A client that records what it is answered. */
  say: Control
  /** Texts and headers of all answers. */
  answers: string[]
  /** Each wrong call that was not refused with a status from 400 to 499. */
  accepted: string[]
}

/** Makes deployments and a provider with the secret, changes and reads them, and makes wrong calls with it. */
export async function callWithSecret(call: Control, secret: string): Promise<SecretCalls> {
  const answers: string[] = []
  const say = async <T>(method: string, path: string, body?: unknown, headers = {}): Promise<Answered<T>> => {
    const answer = await call<T>(method, path, body, headers)
    answers.push(answer.text, JSON.stringify([...answer.headers]))
    return answer
  }
  const secrets = [{ name: 'TOKEN', value: secret }]
  const { body: made } = await say<Deployment>('POST', '/v2/deployments', github('canary', { secrets }), {
    'idempotency-key': 'k1',
  })
  await say('POST', '/v2/deployments', image('canary-2', { secrets }))
  await say('PATCH', `/v2/deployments/${made.id}`, { secrets: [...secrets, { name: 'OTHER', value: `x${secret}` }] })
  await say('GET', `/v2/deployments/${made.id}`)
  await say('GET', '/v2/deployments')
  const provider = {
    provider_id: 'canary',
    name: 'C',
    client_id: 'c',
    auth_url: 'https://a.example/a',
    token_url: 'https://a.example/t',
    client_secret: secret,
  }
  await say('POST', '/v2/auth/providers', provider)
  await say('PATCH', '/v2/auth/providers/canary', { client_secret: `y${secret}` })
  await say('GET', '/v2/auth/providers')

  const c3 = (more: object) => ({ ...github('c3'), ...more })
  const wrong: [string, string, unknown][] = [
    [
      'POST',
      '/v2/deployments',
      c3({
        secrets: [
          { name: secret, value: 1 },
          { name: 'A', value: { x: secret } },
        ],
      }),
    ],
    ['POST', '/v2/deployments', c3({ secrets: [{ name: `${secret} -`, value: secret }] })],
    ['POST', '/v2/deployments', c3({ secrets: secret })],
    [
      'POST',
      '/v2/deployments',
      c3({
        secrets: [
          { name: 'A', value: secret },
          { name: 'A', value: secret },
        ],
      }),
    ],
    ['POST', '/v2/deployments', c3({ secrets: [{ name: 'PATH', value: secret }] })],
    ['POST', '/v2/deployments', c3({ secrets: [{ name: 'A', value: `${secret}\0` }] })],
    ['POST', '/v2/deployments', c3({ secrets, source_config: { repo_url: `https://u:${secret}@example.com/a` } })],
    ['POST', '/v2/deployments', c3({ secrets, source: secret })],
    ['POST', '/v2/deployments', `{"name":"c3","secrets":[{"name":"A","value":"${secret}"`],
    ['POST', '/v2/deployments', `{"secrets":${secret}}`],
    ['POST', '/v2/deployments', github('canary', { secrets })],
    [
      'PATCH',
      `/v2/deployments/${made.id}`,
      { secrets: [{ name: 'A', value: secret }], source_config: { repo_url: secret } },
    ],
    ['PATCH', '/v2/auth/providers/canary', { client_secret: [secret] }],
    ['PATCH', '/v2/auth/providers/canary', { client_secret: secret, auth_url: `https://u:${secret}@a.example` }],
    ['POST', '/v2/auth/providers', { ...provider, client_secret: secret, token_url: secret }],
  ]
  const accepted: string[] = []
  for (const [method, path, body] of wrong) {
    const { status } = await say(method, path, body)
    if (status < 400 || status >= 500) accepted.push(`${method} ${JSON.stringify(body).slice(0, 60)}: ${status}`)
  }
  return { made, say, answers, accepted }
}

/** A deploy worker receives the secret, and its build logs it and fails with it. Returns what it received. */
export async function failWithSecret(
  deployer: Deployer,
  { made, say }: SecretCalls,
  secret: string,
): Promise<{ [name: string]: string }> {
  const task = (await deployer.claim(['github']))!
  const text = `export TOKEN=${secret}; git clone https://t:${secret}@example.com`
  await deployer.log(task, 'build', [{ t: Date.now(), level: 'info', text }])
  await deployer.advance(task, 'BUILDING')
  await deployer.advance(task, 'BUILD_FAILED', { message: `exit 1: ${secret}` })
  await say('POST', `/v1/projects/${made.id}/revisions/${task.revision_id}/build_logs`, { limit: 100 })
  await say('GET', `/v2/deployments/${made.id}/revisions`)
  return task.env
}
