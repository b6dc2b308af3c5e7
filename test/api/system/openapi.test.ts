/** The OpenAPI document (docs/spec/http.md#system): valid, complete, and what the server does. */
import { execFile } from 'node:child_process'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { Validator } from '@seriousme/openapi-schema-validator'
import t from 'tap'
import { root } from '../../../cli/root.js'
import { operationNames, operationOf } from '../../../edge/openapi/operations.js'
import { ROUTES } from '../../../edge/routes.js'
import { venvOf, withoutPython } from '../../../scripts/checks/venv.js'
import { startCluster } from '../../helpers/cluster.js'

t.setTimeout(300_000)

const run = promisify(execFile)

interface Document {
  openapi: string
  servers: { url: string }[]
  paths: { [path: string]: { [method: string]: { operationId: string } } }
}

t.test('every route has a row, and every row a route', async t => {
  const names = ROUTES.map(({ method, path }) => `${method} ${path}`)
  for (const route of ROUTES) t.ok(operationOf(route), `${route.method} ${route.path}`)
  t.same(operationNames().sort(), names.sort())
})

t.test('the document of a server', async t => {
  const cluster = await startCluster({ app: 'test/apps/basic', env: { WEFT_TEST: '' } })
  t.teardown(() => cluster.stop())
  const read = async (path: string) => (await (await fetch(`${cluster.url}${path}`)).json()) as Document
  const document = await read('/openapi.json')

  await t.test('is valid and has all routes', async t => {
    const { valid, errors } = await new Validator().validate(structuredClone(document) as never)
    t.ok(valid, JSON.stringify(errors)?.slice(0, 500))
    t.equal(document.openapi, '3.1.0')
    for (const { method, path, test } of ROUTES) {
      const operation = document.paths[path.replace(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()]
      t.equal(operation !== undefined, !test, `${method} ${path}`)
    }
    const ids = Object.values(document.paths).flatMap(methods => Object.values(methods).map(one => one.operationId))
    t.equal(new Set(ids.filter(Boolean)).size, ids.filter(Boolean).length, 'operation ids are unique')
    t.same(document.servers, [{ url: '/' }])
    t.equal((await fetch(`${cluster.url}/deployments/one/openapi.json`)).status, 404, 'no such deployment')
  })

  await t.test('is shown in a page that loads nothing from elsewhere', async t => {
    const page = await fetch(`${cluster.url}/docs`)
    t.match(page.headers.get('content-type'), 'text/html')
    t.match(page.headers.get('content-security-policy'), /^default-src 'none'; script-src 'self';/)
    const html = await page.text()
    t.notMatch(html, /https?:/)
    const files = [...html.matchAll(/(?:src|href)="\.\/(docs\/[^"]+\.(\w+))"/g)]
    const types: { [extension: string]: string } = { css: 'text/css', js: 'text/javascript', svg: 'image/svg+xml' }
    t.same(new Set(files.map(([, , extension]) => extension)), new Set(Object.keys(types)))
    for (const [, file = '', extension = ''] of files) {
      const answer = await fetch(`${cluster.url}/${file}`)
      t.equal(answer.status, 200, file)
      t.match(answer.headers.get('content-type'), types[extension])
    }
    for (const [file, status] of [
      ['package.json', 404],
      ['..%2fpages.js', 400],
      ['constructor', 404],
    ] as const)
      t.equal((await fetch(`${cluster.url}/docs/${file}`)).status, status, file)
  })

  await t.test(
    'generated requests get no 5xx, and answers as described',
    { skip: withoutPython() ?? false },
    async t => {
      const bin = dirname(await venvOf(join(root, 'test/python/requirements-fuzz.txt')))
      const args = [
        ...['run', `${cluster.url}/openapi.json`, '--url', cluster.url],
        ...[
          '--checks',
          'not_a_server_error,content_type_conformance,response_schema_conformance,status_code_conformance',
        ],
        ...['--phases', 'fuzzing', '--max-examples', '4', '--seed', '7', '--no-shrink', '--workers', '1'],
        // Streams last as long as their client; readiness is 503 by design while a worker starts.
        ...['--exclude-path-regex', '/stream|^/ready$', '--suppress-health-check', 'all'],
        ...['--request-timeout', '20', '--continue-on-failure', '--warnings', 'off', '--no-color'],
      ]
      const env = { ...process.env, HOME: t.testdir(), PYTHONDONTWRITEBYTECODE: '1' }
      const { stdout, failed } = await run(join(bin, 'schemathesis'), args, {
        env,
        cwd: t.testdir(),
        timeout: 200_000,
        maxBuffer: 64 * 1024 * 1024,
      }).then(
        ({ stdout }) => ({ stdout, failed: false }),
        error => ({ stdout: `${error.stdout}\n${error.stderr}`, failed: true }),
      )
      const report = Math.max(0, stdout.search(/^=+ (ERRORS|FAILURES) =/m))
      t.notOk(failed, stdout.slice(report, report + 6_000))
      t.match(stdout, /\d+ (passed|generated)/i)
    },
  )
})
