import t from 'tap'
import { type AppConfig, readAppConfig } from '../../schemas/application.js'
import { AppConfigError } from '../../schemas/description.js'
import { type WebhookUrlRules, webhookFault, webhookHeaders } from '../../schemas/webhooks.js'

const GRAPHS = { agent: './src/agent.ts:graph' }

/** Reads the description as `/app/langgraph.json` beside the given files. */
function read(
  description: unknown,
  env: { [name: string]: string | undefined } = {},
  files: { [path: string]: string } = {},
): AppConfig {
  const text = typeof description === 'string' ? description : JSON.stringify(description)
  const all: { [path: string]: string } = { ...files, ...(description === null ? {} : { '/app/langgraph.json': text }) }
  return readAppConfig({ path: '/app/langgraph.json', env, read: path => all[path] ?? null })
}

const template = (inner: string): string => `$${`{{ ${inner} }}`}`

const sentence = (description: unknown, env?: { [name: string]: string }): string => {
  try {
    read(description, env)
  } catch (error) {
    if (error instanceof AppConfigError) return error.message
    throw error
  }
  return ''
}

t.test('a description without any key but graphs has the documented defaults', async t => {
  t.same(read({ graphs: GRAPHS }), {
    path: '/app/langgraph.json',
    folder: '/app',
    graphs: [
      {
        graph_id: 'agent',
        description: null,
        path: './src/agent.ts:graph',
        language: 'javascript',
        file: '/app/src/agent.ts',
        module: null,
        name: 'graph',
        error: null,
        config: {},
        context: {},
      },
    ],
    env: {},
    node_version: null,
    python_version: null,
    dependencies: [],
    checkpointer: null,
    serde: {},
    node_loader: null,
    ttl: null,
    item_ttl: null,
    index: null,
    store: null,
    auth: null,
    encryption: null,
    http: {
      app: null,
      cors: null,
      configurable_headers: { includes: [], excludes: [] },
      logging_headers: { includes: [], excludes: [] },
      middleware_order: 'middleware_first',
      enable_custom_route_auth: false,
      mount_prefix: '',
      disabled: [],
    },
    webhooks: { env_prefix: 'LG_WEBHOOK_', headers: {}, url: {}, allowed_fields: null },
    ui: {},
    ui_shared: [],
    notes: [],
  })
})

t.test('every key is read, and null is as absent', async t => {
  const app = read({
    $schema: 'https://example.org/schema.json',
    graphs: { a: { path: 'a.js:', description: 'A' } },
    node_version: 22,
    node_loader: 'ts-node',
    checkpointer: { ttl: { strategy: 'delete', default_ttl: 5 } },
    store: { ttl: { default_ttl: 1.5 }, index: { dims: 3, embed: './e.ts:embed', fields: ['$'] } },
    http: {
      app: './app.ts:app',
      cors: { allow_origins: ['https://a.example'], max_age: 60, allow_origin_regex: null },
      configurable_headers: { include: ['x-*'], exclude: ['x-secret'] },
      logging_headers: { includes: ['user-agent'] },
      disable_store: true,
      disable_mcp: true,
      disable_ui: false,
      mount_prefix: '/api/v1/',
    },
    webhooks: {
      headers: { 'x-key': 'k' },
      url: { allowed_domains: ['*.a.example'], require_https: true },
      allowed_fields: ['run_id', 'status'],
    },
    ui: { agent: './ui.tsx' },
    ui_config: { shared: ['react'] },
    auth: null,
  })
  t.match(app, {
    graphs: [{ file: '/app/a.js', name: 'default', description: 'A' }],
    node_version: '22',
    node_loader: 'ts-node',
    ttl: { strategy: 'delete', default_ttl: 5 },
    item_ttl: { default_ttl: 1.5 },
    index: { dims: 3, embed: './e.ts:embed', fields: ['$'] },
    auth: null,
    http: {
      app: './app.ts:app',
      cors: { allow_origins: ['https://a.example'], max_age: 60 },
      configurable_headers: { includes: ['x-*'], excludes: ['x-secret'] },
      logging_headers: { includes: ['user-agent'], excludes: [] },
      disabled: ['store', 'mcp'],
      mount_prefix: '/api/v1',
    },
    webhooks: {
      env_prefix: 'LG_WEBHOOK_',
      headers: { 'x-key': 'k' },
      url: { allowed_domains: ['*.a.example'] },
      allowed_fields: ['run_id', 'status'],
    },
    ui: { agent: '/app/ui.tsx' },
    ui_shared: ['react'],
    notes: [],
  })
  t.notOk('allow_origin_regex' in app.http.cors!)
})

t.test('a wrong value: one sentence with the file, the key and what was expected', async t => {
  const cases: [description: unknown, sentence: RegExp][] = [
    ['{"graphs": ', /^\/app\/langgraph\.json is not valid JSON: /],
    ['[]', /^\/app\/langgraph\.json must hold a JSON object\.$/],
    [{}, /names no graphs: "graphs" must map a name to "file:export"\.$/],
    [{ graphs: [] }, /names no graphs/],
    [{ graphs: GRAPHS, http: 7 }, /langgraph\.json: http must be an object\.$/],
    [
      { graphs: GRAPHS, http: { cors: { max_age: -1 } } },
      /: http\.cors\.max_age must be a whole number of at least 0\.$/,
    ],
    [{ graphs: GRAPHS, http: { cors: { allow_origins: 'x' } } }, /: http\.cors\.allow_origins must be a list\.$/],
    [{ graphs: GRAPHS, http: { cors: { allow_origins: [1] } } }, /: http\.cors\.allow_origins\[0\] must be a text\.$/],
    [
      { graphs: GRAPHS, http: { cors: { allow_origin_regex: '(' } } },
      /allow_origin_regex must be a regular expression/,
    ],
    [{ graphs: GRAPHS, http: { disable_runs: 'yes' } }, /: http\.disable_runs must be true or false\.$/],
    [{ graphs: GRAPHS, http: { mount_prefix: 'api' } }, /: http\.mount_prefix must be a text that matches /],
    [{ graphs: GRAPHS, http: { middleware_order: 'x' } }, /must be "auth_first" or "middleware_first"\.$/],
    [
      { graphs: GRAPHS, store: { index: { dims: 0, embed: 'x' } } },
      /: store\.index\.dims must be a number of at least 1\.$/,
    ],
    [{ graphs: GRAPHS, store: { index: { dims: 3 } } }, /: store\.index\.embed must be a text/],
    [{ graphs: GRAPHS, webhooks: { url: { allowed_ports: [0] } } }, /: webhooks\.url\.allowed_ports\[0\] must be/],
    [{ graphs: GRAPHS, webhooks: { headers: { a: 1 } } }, /: webhooks\.headers\.a must be a text\.$/],
    [
      { graphs: GRAPHS, webhooks: { allowed_fields: ['run_id', 'x'] } },
      /: webhooks\.allowed_fields\[1\] must be .*"kwargs"/,
    ],
    [{ graphs: GRAPHS, webhooks: { allowed_fields: [] } }, /: webhooks\.allowed_fields must be /],
    [
      { graphs: GRAPHS, webhooks: { url: { disable_private_ips: 1 } } },
      /: webhooks\.url\.disable_private_ips must be true/,
    ],
    [{ graphs: GRAPHS, ui: { a: 1 } }, /: ui\.a must be a text\.$/],
    [
      { graphs: GRAPHS, encryption: { path: './e.ts:e' } },
      /: encryption\.path must name an Encryption of the Python SDK, as/,
    ],
    [{ graphs: GRAPHS, encryption: {} }, /: encryption\.path must be a text/],
    [{ graphs: GRAPHS, store: { path: '' } }, /: store\.path must be a text/],
  ]
  for (const [description, expected] of cases) t.match(sentence(description), expected, JSON.stringify(description))
  t.match(
    sentence({ graphs: GRAPHS }, { LANGGRAPH_HTTP: '{"cors":{"max_age":"x"}}' }),
    /^LANGGRAPH_HTTP: cors\.max_age must/,
  )
  t.equal(sentence({ graphs: GRAPHS }, { LANGGRAPH_STORE: '{"secret' }), 'LANGGRAPH_STORE is not valid JSON.')
  t.match(sentence({ graphs: GRAPHS }, { MOUNT_PREFIX: 'api' }), /^MOUNT_PREFIX must be/)
  t.match(
    sentence({ graphs: GRAPHS }, { LANGGRAPH_CONFIG: '{"agent":7}' }),
    /^LANGGRAPH_CONFIG: agent must be an object/,
  )
})

t.test('variables of the platform for the lifetime of threads and for CORS win over the file', t => {
  const file = {
    graphs: GRAPHS,
    checkpointer: { ttl: { default_ttl: 5 } },
    http: { cors: { allow_origins: ['https://a.example'] } },
  }
  t.same(read(file, { LANGGRAPH_THREAD_TTL: '60' }).ttl, { strategy: 'delete', default_ttl: 60 })
  const ttl = { strategy: 'keep_latest', default_ttl: 1.5, sweep_limit: 500 }
  t.same(read(file, { LANGGRAPH_THREAD_TTL: JSON.stringify(ttl) }).ttl, ttl)
  const cors = { allow_origin_regex: 'https://.*\\.b\\.example', max_age: null }
  t.same(read(file, { CORS_CONFIG: JSON.stringify(cors) }).http.cors, { allow_origin_regex: cors.allow_origin_regex })
  t.same(read(file, { CORS_CONFIG: '', LANGGRAPH_THREAD_TTL: '' }).ttl, { default_ttl: 5 })
  t.match(sentence(file, { LANGGRAPH_THREAD_TTL: 'soon' }), /^LANGGRAPH_THREAD_TTL is not valid JSON/)
  t.match(sentence(file, { LANGGRAPH_THREAD_TTL: '-1' }), /^LANGGRAPH_THREAD_TTL must be a number/)
  t.match(
    sentence(file, { LANGGRAPH_THREAD_TTL: '{"strategy":"x"}' }),
    /^LANGGRAPH_THREAD_TTL: strategy must be "delete"/,
  )
  t.match(sentence(file, { CORS_CONFIG: '{"max_age":"x"}' }), /^CORS_CONFIG: max_age must be/)
  t.match(
    sentence(file, { CORS_CONFIG: '{"allow_origin_regex":"("}' }),
    /^CORS_CONFIG: allow_origin_regex must be a regular expression/,
  )
  t.end()
})

t.test('a graph has the language of its file; a name of a module is Python', async t => {
  const paths = ['./a.ts:g', 'a.mjs:g', './a:g', './a.py:g', '../src/a.py:g', 'package.module:g', 'agent:g']
  const { graphs } = read({ graphs: Object.fromEntries(paths.map(path => [path, path])) })
  t.same(
    graphs.map(({ language, file, module }) => [language, file, module]),
    [
      ['javascript', '/app/a.ts', null],
      ['javascript', '/app/a.mjs', null],
      ['javascript', '/app/a', null],
      ['python', '/app/a.py', null],
      ['python', '/src/a.py', null],
      ['python', null, 'package.module'],
      ['python', null, 'agent'],
    ],
  )
})

t.test('a bad graph does not hide the others', async t => {
  const { graphs } = read({ graphs: { ...GRAPHS, none: null, plain: './a.ts' } })
  t.same(
    graphs.map(({ error }) => error?.replace(/ \(.*/, '') ?? null),
    [null, 'Graph "none" must be given as "file:export".', 'Graph "plain" must be given as "file:export".'],
  )
})

t.test('a variable replaces its key, also in the file of "env"; the log says so', async t => {
  const description = { graphs: GRAPHS, env: '.env', http: { disable_store: true } }
  const files = { '/app/.env': 'LANGGRAPH_HTTP={"disable_runs":true}\nA=1\nB=2' }
  const app = read(description, { B: '3' }, files)
  t.same(app.http.disabled, ['runs'])
  t.same(app.notes, ['"http" of the application is that of the variable LANGGRAPH_HTTP.'])
  t.same(app.env.B, '2')
  t.same(
    read(description, { LANGGRAPH_HTTP: '{"disable_a2a":true}' }, files).http.disabled,
    ['a2a'],
    'the process wins',
  )
  t.match(read({ graphs: GRAPHS, env: 'none' }).notes, ['The environment file /app/none cannot be read.'])
  const { graphs } = read(null, {
    LANGSERVE_GRAPHS: '{"b":"/deps/b.js:b"}',
    LANGGRAPH_CONFIG: '{"b":{"context":{"c":1},"tags":["t"]}}',
  })
  t.match(graphs, [{ graph_id: 'b', file: '/deps/b.js', config: { tags: ['t'] }, context: { c: 1 } }])
  t.equal(read({ graphs: GRAPHS, node_loader: 'a' }, { LANGGRAPH_NODE_LOADER: 'b' }).node_loader, 'b')
  t.equal(read({ graphs: GRAPHS }, { MOUNT_PREFIX: '/x' }).http.mount_prefix, '/x')
})

t.test('ignored keys are named together', async t => {
  const app = read({
    graphs: GRAPHS,
    pip_installer: 'uv',
    http: { flags: 1 },
    x: null,
  })
  t.same(app.notes, ['/app/langgraph.json: these keys are ignored: pip_installer, http.flags, x.'])
  const auth = { path: './auth.ts:auth', allow_langsmith_api_keys: true }
  t.match(read({ graphs: GRAPHS, auth }).notes, [/auth\.allow_langsmith_api_keys has no effect/])
  t.same(read({ graphs: GRAPHS, auth: { ...auth, allow_langsmith_api_keys: false } }).notes, [])
})

t.test('a store of the application has no settings of the store of Weft', t => {
  const index = { dims: 3, embed: './e.ts:embed' }
  const app = read({ graphs: GRAPHS, store: { path: './s.py:open', ttl: { default_ttl: 1 }, index } })
  t.match(app, { store: './s.py:open', item_ttl: null, index: null })
  t.match(app.notes, [/: store\.ttl has no effect: /, /: store\.index has no effect: /])
  const pathOf = (path: string) => read({ graphs: GRAPHS, store: { path } }).store
  t.equal(pathOf('package.stores.open_store'), 'package.stores:open_store', 'the export of a module')
  t.equal(pathOf('package.stores:open_store'), 'package.stores:open_store')
  t.equal(pathOf('./stores.mjs'), './stores.mjs', 'the default export')
  t.end()
})

t.test('a checkpointer of the application gets copies of the checkpoints of graphs in Python', t => {
  const [python, javascript] = [{ p: './p.py:p' }, { j: './j.mjs:j' }]
  const about = (graphs: object, checkpointer: object) => {
    const { checkpointer: path, notes } = read({ graphs, checkpointer })
    return [path, notes.join(' ')]
  }
  const path = './c.py:open'
  t.match(about(python, { path }), [path, /^\S+: checkpointer\.path: \S+ gets a copy of each checkpoint/])
  t.match(about(python, { path: 'c.open', backend: 'custom' }), ['c:open', /Weft reads none of them/])
  t.notMatch(about(python, { path })[1], /only checkpoints/)
  t.match(about({ ...python, ...javascript }, { path }), [path, /Only checkpoints of graphs in Python are copied/])
  t.match(about(javascript, { path }), [null, /checkpointer\.path has no effect: only checkpoints of graphs in Python/])
  t.match(about(python, { path: './c.mjs:c' }), [null, /checkpointer\.path has no effect/])
  t.match(about(python, { backend: 'mongo' }), [null, /checkpointer\.backend has no effect: .* MONGODB_URL/])
  t.same(about(python, { backend: 'default' }), [null, ''])
  t.match(sentence({ graphs: python, checkpointer: { backend: 'custom' } }), /: checkpointer\.path must name/)
  t.end()
})

t.test('webhook headers take the variables with the prefix, and only these', async t => {
  const { webhooks } = read({
    graphs: GRAPHS,
    webhooks: { headers: { authorization: `Bearer ${template('env.LG_WEBHOOK_TOKEN')}`, plain: 'p' } },
  })
  t.same(webhookHeaders(webhooks, { LG_WEBHOOK_TOKEN: 't' }), { authorization: 'Bearer t', plain: 'p' })
  const withHeader = (name: string, value: string) => ({ ...webhooks, headers: { [name]: value } })
  t.throws(() => webhookHeaders(webhooks, {}), /"authorization"\]: the variable LG_WEBHOOK_TOKEN is not set\./)
  t.throws(
    () => webhookHeaders(withHeader('a', template('env.HOME')), { HOME: '/' }),
    /HOME must begin with LG_WEBHOOK_/,
  )
  t.throws(
    () => webhookHeaders(withHeader('a', template('secrets.X')), {}),
    /expected \$\{\{ env\.LG_WEBHOOK_NAME \}\}/,
  )
  t.throws(() => webhookHeaders(withHeader('a b', 'x'), {}), /must be a header/)
  t.throws(() => webhookHeaders(withHeader('a', 'x\r\ny: z'), {}), /must be a header/)
})

t.test('which webhooks the application allows', t => {
  const cases: [url: string, rules: WebhookUrlRules, sentence: RegExp | null][] = [
    ['https://a.example/x', {}, null],
    ['http://a.example/', { require_https: true }, /an https URL/],
    ['https://a.example/', { allowed_domains: ['a.example'] }, null],
    ['https://b.a.example/', { allowed_domains: ['a.example'] }, /allowed_domains/],
    ['https://B.A.example/', { allowed_domains: ['*.a.example'] }, null],
    ['https://a.example/', { allowed_domains: ['*.a.example'] }, /allowed_domains/],
    ['https://xa.example/', { allowed_domains: ['*.a.example'] }, /allowed_domains/],
    ['https://a.example/', { allowed_domains: [] }, /allowed_domains/],
    ['https://a.example/', { allowed_ports: [443] }, null],
    ['http://a.example/', { allowed_ports: [443] }, /allowed_ports/],
    ['http://a.example:8080/', { allowed_ports: [8080] }, null],
    ['http://localhost:8080/', { disable_loopback: true }, /disable_loopback/],
    ['http://127.1.2.3/', { disable_loopback: true }, /disable_loopback/],
    ['http://[::1]/', { disable_loopback: true }, /disable_loopback/],
    ['https://a.example/12', { max_url_length: 20 }, null],
    ['https://a.example/123', { max_url_length: 20 }, /at most 20/],
  ]
  for (const [url, rules, sentence] of cases) {
    const fault = webhookFault(url, rules)
    if (sentence === null) t.equal(fault, null, url)
    else t.match(fault, sentence, url)
  }
  t.end()
})
