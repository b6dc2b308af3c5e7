/** Bodies of requests in an app host: many, large ones and those that are made to break a parser. */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openLog } from '../../bus/log.js'
import { root } from '../../cli/root.js'
import type { CheckAnswer } from '../../schemas/auth/auth.js'
import { unpack } from '../../schemas/packed.js'
import { venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { type AppHost, openAppHost } from '../../workers/child/app-host.js'

t.setTimeout(180_000)
const MB = 1024 * 1024
const log = openLog('edge', 'silent', 'json')
const skip = withoutPython() ?? false
const python = skip === false ? await venvOf(join(root, 'test/host-python/requirements.txt')) : ''

const check = (host: AppHost, user: string, body: string | Uint8Array, more: object = {}) => {
  const call = { verb: 'check', method: 'POST', url: 'http://weft/x', params: {}, query: '' } as const
  const headers: [string, string][] = [
    ['x-user', user],
    ['authorization', `Bearer ${user}`],
  ]
  const events = ['threads:create_run'] as const
  return host
    .call({ ...call, headers, events, ...more }, Buffer.from(body))
    .then(bytes => unpack<CheckAnswer>(bytes).head)
}
const passed = (identity: string) => ({ passed: { user: { identity } } })

for (const [language, app, memory_mb, skipped] of [
  ['JavaScript', 'test/apps/app-host/langgraph.json', 128, false],
  // Its memory is that of the whole process.
  ['Python', 'test/apps/auth-py/langgraph.json', 192, skip],
] as const) {
  const open = async (t: Test) => {
    const host = openAppHost({
      app: join(root, app),
      parts: ['auth'],
      memory_mb,
      user: null,
      sandbox: null,
      python,
      log,
    })
    t.teardown(() => host.stop())
    t.match(await host.hello, { error: null, auth: true })
    return host
  }

  t.test(
    `${language}: a body beyond the limits of JSON is refused before anything parses it`,
    { skip: skipped },
    async t => {
      const host = await open(t)
      const braces = `{"who":"eve","list":[${'{},'.repeat(5 * MB)}1]}`
      // With the last one, the code of the application reads the body by itself.
      for (const more of [{}, { events: [] }, { headers: [['x-wish', 'body']] }])
        t.match(await check(host, 'alice', braces, more), {
          refused: { status: 400, detail: /^The body has more than \d+ values$/ },
        })
      const larger = `${braces}${' '.repeat((memory_mb / 8) * MB - braces.length + 1)}`
      await t.rejects(check(host, 'alice', larger), { code: 'too_large', message: /an eighth of WEFT_HOST_MEMORY_MB/ })
      t.match(await check(host, 'alice', '{}'), passed('alice'))
    },
  )

  t.test(`${language}: a body of another format is no JSON where no handler is asked`, { skip: skipped }, async t => {
    const host = await open(t)
    for (const body of ['a,b,c\n'.repeat(400_000), Buffer.from([0xff, 0xfe, 0x2c])]) {
      t.match(await check(host, 'alice', body, { events: [] }), passed('alice'))
      t.match(await check(host, 'alice', body), { refused: { status: 400, detail: /not JSON in UTF-8/ } })
    }
  })

  t.test(
    `${language}: many large bodies at once end nothing, and others are answered meanwhile`,
    { skip: skipped },
    async t => {
      const host = await open(t)
      const large = Buffer.from(JSON.stringify({ metadata: {}, input: { text: 'x'.repeat(14 * MB) } }))
      const order: string[] = []
      const many = Array.from({ length: 8 }, () =>
        check(host, 'carol', large)
          .then(
            answer => Object.keys(answer)[0]!,
            error => error.code as string,
          )
          .finally(() => order.push('large')),
      )
      for (let i = 0; i < 3; i++) {
        t.match(await check(host, 'bob', '{"metadata":{},"input":{}}'), passed('bob'))
        order.push('small')
      }
      const outcomes = new Set(await Promise.all(many))
      t.ok(order.lastIndexOf('small') < order.lastIndexOf('large'), 'small ones pass by')
      // A slow machine lets some of them wait too long, or its handlers take too long.
      for (const code of ['too_many', 'internal']) outcomes.delete(code)
      t.same(
        [...outcomes].filter(outcome => outcome !== 'passed'),
        [],
        'no app host ended',
      )
      t.match(await check(host, 'bob', '{}'), passed('bob'))
    },
  )
}
