/**
 * Every variable Weft reads, its default and what it is for: one literal, read once in a main.ts, frozen and passed on.
 * `npm run settings` writes docs/configuration.md from it.
 */
import { BUILT_IN_APP } from './ids.js'
import type { Sender } from './subjects.js'

interface Setting<T> {
  env: string
  default: T
  doc: string
  /** Set by drivers, scripts and tests only; in no list for operators, and it may change with any version. */
  isInternal: boolean
}

const setting = <T>(env: string, fallback: T, doc: string): Setting<T> => ({
  env,
  default: fallback,
  doc,
  isInternal: false,
})
const internal = <T>(env: string, fallback: T, doc: string): Setting<T> => ({
  env,
  default: fallback,
  doc,
  isInternal: true,
})
/** Another name of a setting, or a detail of it: the `doc` of that setting names it, so it has no line of its own. */
const companion = internal

export const SETTINGS = {
  host: setting(
    'WEFT_HOST',
    '127.0.0.1',
    'Address of the edge. Any address other than loopback needs authentication, or `--insecure`.',
  ),
  port: setting(
    'PORT',
    2024,
    'Port of the edge; with 0 the system chooses one. On `WEFT_HEALTH_PORT`, if it is set, a process of any role answers the probes `/live` and `/ready` for itself alone.',
  ),
  health_port: companion('WEFT_HEALTH_PORT', 0, 'Port of the probes of this process; none with 0.'),
  data: setting('WEFT_DATA', '.weft', 'Folder of the embedded store, the NATS server and generated keys.'),
  app: setting('WEFT_APP', 'langgraph.json', 'The application: a langgraph.json, or the folder that contains it.'),
  app_id: setting(
    'WEFT_APP_ID',
    'built-in',
    'Name of the application that a graph worker serves; an application other than `built-in` is served below `/deployments/<name>`.',
  ),
  dev: internal('WEFT_DEV', false, 'Graph workers serve an application of which no graph could be loaded.'),
  pool: setting('WEFT_POOL', 'default', 'Pool of a graph worker: the work queue that it takes runs from.'),
  revision: internal(
    'WEFT_REVISION',
    '',
    'Revision of the deployment `WEFT_APP_ID` that a graph worker in a container serves. The drivers for images set it.',
  ),
  replica: internal('WEFT_REPLICA', '', 'Name of this replica of `WEFT_REVISION`; the host name when empty.'),
  drain_ms: internal(
    'WEFT_DRAIN_MS',
    300000,
    'Milliseconds for which a replica of `WEFT_REVISION` that is stopped goes on with the runs queued for its revision.',
  ),
  slots: setting('N_JOBS_PER_WORKER', 1000, 'Runs that one graph worker executes at the same time.'),
  scheduling: setting(
    'WEFT_SCHEDULING',
    '',
    'How tenants share the slots of a pool: priorities, weights, limits and rates as JSON, or the path of a JSON file.',
  ),
  hand_over: internal(
    'WEFT_HAND_OVER',
    true,
    'Resource workers claim runs for this graph worker when they create them. With `false` all its runs go through the work queue, whose length scalers may read.',
  ),
  hosts: setting('WEFT_HOSTS', 0, 'Graph hosts of a graph worker; 0 means one less than the cores, at least one.'),
  host_memory_mb: setting(
    'WEFT_HOST_MEMORY_MB',
    512,
    'Megabytes of a graph host: its JavaScript heap, or all memory of a Python host; a run that needs more is charged an attempt. A body that an `auth` checks may have an eighth of it.',
  ),
  host_node: setting(
    'WEFT_HOST_NODE',
    '',
    'Path of the Node.js (20 or newer) that executes graph hosts, and installs, builds and probes of deployments; that of Weft when empty.',
  ),
  newest_node: internal(
    'WEFT_NEWEST_NODE',
    '',
    'Path of a newer Node.js that takes the place of `WEFT_HOST_NODE` when that is empty and no package of the application is compiled for another one. `./scripts/start` downloads one and sets it.',
  ),
  host_reads_per_second: internal(
    'WEFT_HOST_READS_PER_SECOND',
    5000,
    'Reads of checkpoints and calls of the item store that the graphs of one host may begin in a second; further ones wait.',
  ),
  host_bytes_in_flight: internal(
    'WEFT_HOST_BYTES_IN_FLIGHT',
    64 * 1024 * 1024,
    'Bytes of questions of one graph host, and of answers that it has not read; beyond that the host waits.',
  ),
  host_user: setting(
    'WEFT_HOST_USER',
    '',
    'User of graph hosts, and of builds and probes of deployments: a name or uid:gid. Needs a start as root.',
  ),
  host_sandbox: setting(
    'WEFT_HOST_SANDBOX',
    '',
    '`bubblewrap` runs graph hosts and app hosts, and builds and probes of deployments, in a sandbox without the files of this machine; it must be installed. `WEFT_HOST_NETWORK` lists the hosts that code in it may connect to, as `api.example.com,*.example.org:443`; with `off` hosts reach their own server only.',
  ),
  host_network: companion(
    'WEFT_HOST_NETWORK',
    'on',
    'Where code in a sandbox may connect to: on, off, or hosts, addresses and ranges, comma-separated.',
  ),
  host_threads: internal(
    'WEFT_HOST_THREADS',
    256,
    'Threads of one graph host for Python, for nodes that are not async; further ones wait.',
  ),
  python: setting(
    'WEFT_PYTHON',
    '',
    'Python for graphs in Python; when empty, `.venv` beside langgraph.json, else an environment that Weft makes, with uv from the package index unless `WEFT_FETCH_UV` is `false` or uv is on PATH.',
  ),
  fetch_uv: companion(
    'WEFT_FETCH_UV',
    true,
    'Whether Weft downloads uv from the package index when it is not on PATH, to make environments of Python with it.',
  ),
  start_secs: setting(
    'WEFT_START_SECS',
    600,
    'Seconds for which `weft start` waits until the code of the application is loaded and the server is ready.',
  ),
  run_timeout_secs: setting(
    'BG_JOB_TIMEOUT_SECS',
    86400,
    'Time limit of one attempt of a run in seconds; then the run ends with status `timeout`.',
  ),
  nats_url: setting(
    'NATS_URL',
    '',
    'NATS server (`nats://` or `tls://`), with credentials if it needs them, or several of a cluster, comma-separated; when empty, `weft start` starts its own.',
  ),
  nats_issuer: setting(
    'WEFT_NATS_ISSUER',
    '',
    'Seed of the issuer of users of pools at the NATS server (`weft nats init` makes it); when empty, graph workers of deployments share the user of `WEFT_GRAPHS_NATS_URL`.',
  ),
  graphs_nats_url: setting(
    'WEFT_GRAPHS_NATS_URL',
    '',
    'NATS server for the graph workers of deployments; `NATS_URL` when empty. With credentials that they share unless `WEFT_NATS_ISSUER` gives each revision its own.',
  ),
  nats_ca: setting(
    'WEFT_NATS_CA',
    '',
    'File with the certificates of the authorities that may sign that of the NATS server (`tls://` in `NATS_URL`); those of Node.js when empty.',
  ),
  nats_cert: setting(
    'WEFT_NATS_CERT',
    '',
    'File with the certificate of this client, for a NATS server that requires one; the file `WEFT_NATS_KEY` has its key.',
  ),
  nats_key: companion('WEFT_NATS_KEY', '', 'File with the key of `WEFT_NATS_CERT`.'),
  nats_replicas: setting(
    'WEFT_NATS_REPLICAS',
    1,
    'Copies of each stream in a cluster of NATS servers: 1, or 3 for a cluster that goes on without one of its servers. At most 5.',
  ),
  nats_cluster: setting(
    'WEFT_NATS_CLUSTER',
    '',
    'Name of the cluster that holds the streams, where several clusters are connected.',
  ),
  nats_tags: setting('WEFT_NATS_TAGS', '', 'Comma-separated tags of the NATS servers that may hold the streams.'),
  database_uri: setting(
    'DATABASE_URI',
    '',
    'PostgreSQL (14 or newer) for the store, as `postgres://user:password@host:5432/database`; `POSTGRES_URI` when empty. SQLite in the data folder when these and `MONGODB_URL` are empty.',
  ),
  postgres_uri: companion('POSTGRES_URI', '', 'The same, when `DATABASE_URI` is empty.'),
  mongodb_url: setting('MONGODB_URL', '', 'MongoDB for the store, instead of PostgreSQL.'),
  log_level: setting('LOG_LEVEL', 'info', 'error, warn, info, debug or silent.'),
  log_format: setting(
    'LOG_FORMAT',
    'auto' as LogFormat,
    'Lines of the log: `json`; `pretty`, short lines for a person; or `auto`: pretty on a terminal, JSON otherwise. With `json` all that `weft start` and the roles print is JSON.',
  ),
  body_limit: setting(
    'HTTP_MAX_REQUEST_BODY_BYTES',
    64 * 1024 * 1024,
    'Largest request body in bytes; a larger one is answered 413. Bodies without input, state or items have at most 4 MB, as have those of MCP; those of A2A have 16 MB.',
  ),
  bodies_in_flight: internal(
    'WEFT_BODY_BYTES_IN_FLIGHT',
    256 * 1024 * 1024,
    'Bytes of all request bodies in memory at once; beyond that 429.',
  ),
  max_connections: setting(
    'WEFT_MAX_CONNECTIONS',
    20000,
    'Requests, streams and WebSockets that are open at once; beyond that 503.',
  ),
  streams_per_address: internal(
    'WEFT_STREAMS_PER_ADDRESS',
    1000,
    'Streams, waits and WebSockets of one remote address at once, beyond that 429; 0 sets no limit. All clients of a proxy share its address, unless `WEFT_TRUSTED_PROXIES` names it.',
  ),
  trusted_proxies: setting(
    'WEFT_TRUSTED_PROXIES',
    '',
    'Comma-separated addresses and CIDRs of proxies whose `X-Forwarded-For` names the client, for limits by address and the log.',
  ),
  socket_bytes: internal(
    'WEFT_SOCKET_BYTES',
    4 * 1024 * 1024,
    'Largest message of a WebSocket client in bytes, and the unread bytes beyond which its connection is closed.',
  ),
  heartbeat_ms: internal('WEFT_HEARTBEAT_MS', 5000, 'Milliseconds between heartbeat comments on an idle stream.'),
  stall_ms: internal(
    'WEFT_STALL_MS',
    30000,
    'A stream whose client reads nothing for this many milliseconds is closed; the client may resume.',
  ),
  cors_origins: setting(
    'CORS_ALLOW_ORIGINS',
    '',
    'Comma-separated origins of web pages that may call the server; `*` never allows credentials. When empty: `*`, or none when callers are authenticated.',
  ),
  configurable_headers: setting(
    'WEFT_CONFIGURABLE_HEADERS',
    '',
    'Comma list of request headers (`*` matches any text) that graphs find in `config.configurable`, as `x-*,user-agent`; never credentials.',
  ),
  allowed_hosts: setting(
    'WEFT_ALLOWED_HOSTS',
    '',
    'Comma-separated `Host` names that the edge answers to, in addition to loopback names (DNS rebinding guard).',
  ),
  insecure: setting('WEFT_INSECURE', false, 'Allow an address other than loopback without authentication.'),
  require_keys: setting(
    'WEFT_REQUIRE_KEYS',
    false,
    'Every request of a client needs a key made by `weft keys create`, except where the application brings its own `auth`.',
  ),
  studio_auth: setting(
    'WEFT_STUDIO_AUTH',
    false,
    'For development, on loopback only: requests with `x-auth-scheme: langsmith` pass the `auth` of the application as LangGraph Studio, without a check.',
  ),
  disconnect_grace_ms: internal(
    'WEFT_DISCONNECT_GRACE_MS',
    5000,
    'Milliseconds before `on_disconnect=cancel` takes effect on a resumable run.',
  ),
  keep_ended_ms: internal(
    'WEFT_KEEP_ENDED_MS',
    60000,
    'Milliseconds after its end for which a run without a stored stream can be joined.',
  ),
  resumable_ttl_ms: setting(
    'WEFT_RESUMABLE_TTL_MS',
    3600000,
    'Milliseconds for which the stored stream of a resumable run is kept.',
  ),
  resumable_bytes: internal(
    'WEFT_RESUMABLE_BYTES',
    256 * 1024 * 1024,
    'Bytes of the stored stream of one resumable run.',
  ),
  run_spans_hours: setting(
    'WEFT_RUN_SPANS_HOURS',
    168,
    'Hours for which the recorded parts of a run (nodes, models, tools) are kept; 0: none are recorded.',
  ),
  max_file_store: setting(
    'WEFT_MAX_FILE_STORE',
    8 * 1024 * 1024 * 1024,
    'Disk bytes that the NATS server of `weft start` may use; the streams of any NATS server are sized by it.',
  ),
  min_free_mb: setting(
    'WEFT_MIN_FREE_MB',
    256,
    'With less free space for the embedded store (or less than a tenth of its disk, when that is smaller) new runs are refused with 503, so that those which exist can end. 0: never.',
  ),
  stop_ms: setting(
    'WEFT_STOP_MS',
    10000,
    'Deadline of an orderly stop in milliseconds. An edge that runs alone first serves for `WEFT_EDGE_DRAIN_MS` (5000) more, while `/ready?self=1` answers 503, so that balancers leave it.',
  ),
  edge_drain_ms: companion('WEFT_EDGE_DRAIN_MS', 5000, 'Milliseconds for which an edge serves after SIGTERM.'),
  allow_hosts: setting(
    'WEFT_ALLOW_HOSTS',
    '',
    'Comma-separated hosts, host:port, addresses or CIDRs that webhooks, OAuth providers and sources of deployments may use although they are not public; without a port on every port.',
  ),
  control_key: setting(
    'WEFT_CONTROL_KEY',
    '',
    'Key of the control plane (/v2), at least 16 characters; several, comma-separated, for rotation: all are accepted. When empty, generated at the first start and stored in the data folder.',
  ),
  encryption_key: setting(
    'WEFT_ENCRYPTION_KEY',
    '',
    'Key that encrypts secrets; several, comma-separated, for rotation: the first encrypts, all decrypt. `LANGGRAPH_AES_KEY` when empty; without either, generated at the first start and stored in the data folder.',
  ),
  aes_key: companion(
    'LANGGRAPH_AES_KEY',
    '',
    'The same, when `WEFT_ENCRYPTION_KEY` is empty; with it, states are encrypted.',
  ),
  encrypt_states: setting(
    'WEFT_ENCRYPT_STATES',
    false,
    'The encryption key encrypts also what runs store: values, checkpoints, inputs, results, errors and interrupts. `LANGGRAPH_AES_KEY` switches it on, too; `LANGGRAPH_AES_JSON_KEYS` has comma-separated keys of metadata, `config`, `context` and items that are then encrypted.',
  ),
  aes_json_keys: companion('LANGGRAPH_AES_JSON_KEYS', '', 'Keys of JSON that are encrypted with states.'),
  secrets_read: setting(
    'WEFT_SECRETS_READ',
    false,
    'The control plane returns the values of secrets instead of `********`.',
  ),
  public_url: setting(
    'WEFT_PUBLIC_URL',
    '',
    'Address at which clients reach this server: the prefix of the URLs of deployments and agents (the `Host` of the request when empty), where OAuth providers send users back to, and `langgraph_api_url` of runs.',
  ),
  console_url: setting(
    'WEFT_CONSOLE_URL',
    '',
    'Origin of the console alone, as `https://console.example.com`: on any other host `/console` leads there, and pages of applications have no access to it. When empty, the console shares the origin of the server.',
  ),
  oauth_redirects: setting(
    'WEFT_OAUTH_REDIRECTS',
    '',
    'Comma-separated addresses of other pages that OAuth providers may send users back to; `{provider_id}` stands for the provider. They bring code and state with the key that began the flow.',
  ),
  oauth_same_browser: setting(
    'WEFT_OAUTH_SAME_BROWSER',
    true,
    'The browser that opens the link of an OAuth flow must be the one that comes back: the link leads to a page of this server, which sets a cookie. Without it the link leads to the provider.',
  ),
  local_sources: setting(
    'WEFT_LOCAL_SOURCES',
    '',
    'Comma-separated folders below which deployments may be built from local paths and file:// URLs.',
  ),
  git_credentials_file: setting(
    'WEFT_GIT_CREDENTIALS_FILE',
    '',
    'File with lines `https://user:token@host/path`: credentials for sources of deployments; the longest path counts.',
  ),
  git_ssh_key_file: setting(
    'WEFT_GIT_SSH_KEY_FILE',
    '',
    'Private key for ssh sources of deployments; when empty, the keys of the user of the deploy worker.',
  ),
  upload_mb: setting(
    'WEFT_UPLOAD_MB',
    200,
    'Largest archive of an application that a client uploads (`langgraph deploy --remote`), in megabytes.',
  ),
  build_env: setting(
    'WEFT_BUILD_ENV',
    '',
    'Comma-separated variables that installs and builds of deployments receive, in addition to proxies and PATH.',
  ),
  build_disk_mb: setting(
    'WEFT_BUILD_DISK_MB',
    4096,
    'Disk space of one build of a deployment in megabytes: its files and its caches of package managers.',
  ),
  cgroup: setting(
    'WEFT_CGROUP',
    '',
    'Folder of a delegated cgroup (version 2) below which replicas of deployments get their limits; when empty, that of the deploy worker.',
  ),
  deploy_stable_ms: internal(
    'WEFT_DEPLOY_STABLE_MS',
    10000,
    'Milliseconds for which the replicas of a new revision must stay ready before it serves.',
  ),
  push_secret: setting(
    'WEFT_PUSH_SECRET',
    '',
    'Secret of the webhooks of git hosts that build deployments with `build_on_push`, at least 16 characters; without it they are refused.',
  ),
  scale_runs: setting(
    'WEFT_SCALE_RUNS',
    10,
    'Runs, queued or executed, for each replica of a deployment between its `queue_min_scale` and `queue_max_scale`. Replicas are stopped after `WEFT_SCALE_DOWN_MS` (1800000) with fewer runs.',
  ),
  scale_down_ms: companion(
    'WEFT_SCALE_DOWN_MS',
    1_800_000,
    'Milliseconds with fewer runs before replicas are stopped.',
  ),
  image_driver: setting(
    'WEFT_IMAGE_DRIVER',
    '' as ImageDriver,
    'What runs deployments of source external_docker: `docker`, `kubernetes`, or nothing when empty.',
  ),
  docker_host: setting(
    'DOCKER_HOST',
    'unix:///var/run/docker.sock',
    'Address of the Docker Engine: `unix://`, `tcp://`, or `tcp://` with `ca.pem`, `cert.pem` and `key.pem` in the folder `DOCKER_CERT_PATH`.',
  ),
  docker_certs: companion('DOCKER_CERT_PATH', '', 'Folder of the certificates for an engine on `tcp://` with TLS.'),
  docker_network: setting(
    'WEFT_DOCKER_NETWORK',
    '',
    'Existing network of the Docker Engine that every container of a deployment joins, to reach the NATS server.',
  ),
  docker_auth: setting(
    'WEFT_DOCKER_AUTH',
    '',
    'Folder with credentials of registries, in the form of the `config.json` of Docker: `config.json`, and `<name>.json` for each name of `image_pull_secrets`.',
  ),
  kubeconfig: setting(
    'KUBECONFIG',
    '',
    'File with the address of the Kubernetes cluster and credentials; when empty, `~/.kube/config`, else the cluster this runs in.',
  ),
  kubernetes_namespaces: setting(
    'WEFT_KUBERNETES_NAMESPACES',
    'default',
    'Comma-separated namespaces that deployments may use; the first one is for those that name none.',
  ),
  kubernetes_service_accounts: setting(
    'WEFT_KUBERNETES_SERVICE_ACCOUNTS',
    '',
    'Comma-separated service accounts that deployments may use.',
  ),
  image_labels: setting(
    'WEFT_IMAGE_LABELS',
    '',
    'Comma-separated names of labels and annotations that deployments of images may have; `*` at the end stands for any text.',
  ),
  kubernetes_keda: setting(
    'WEFT_KUBERNETES_KEDA',
    '',
    'host:port of the monitoring pages of the NATS server: KEDA reads them and scales deployments. When empty, the deploy worker scales.',
  ),
  cron_seconds: setting(
    'WEFT_CRON_SECONDS',
    false,
    'Accept cron schedules of six fields; the first field is the second.',
  ),
  webhook_secret: setting(
    'WEFT_WEBHOOK_SECRET',
    '',
    'Key of webhook signatures; when empty, generated at the first start and stored in the data folder (with MongoDB: in the database).',
  ),
  otlp_endpoint: setting(
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    '',
    'Address of a collector of OpenTelemetry that accepts OTLP over HTTP, as `http://localhost:4318`; traces and metrics are sent to it, and without it nothing. `OTEL_EXPORTER_OTLP_HEADERS` has headers for it (`name=value`, comma-separated and percent-encoded). `OTEL_TRACES_SAMPLER_ARG` is the part of the traces that begin here and are recorded, from 0 to 1, which is the default; a `traceparent` of the client decides for its own. Metrics are sent every `OTEL_METRIC_EXPORT_INTERVAL` milliseconds, by default 60000; `OTEL_METRICS_EXPORTER=none` sends traces only.',
  ),
  otlp_headers: companion('OTEL_EXPORTER_OTLP_HEADERS', '', 'Headers for the collector.'),
  trace_ratio: companion('OTEL_TRACES_SAMPLER_ARG', 1, 'Part of the traces that are recorded.'),
  metrics_exporter: companion('OTEL_METRICS_EXPORTER', 'otlp', 'none: no metrics are sent to the collector.'),
  metric_interval_ms: companion('OTEL_METRIC_EXPORT_INTERVAL', 60_000, 'Time between two sent metrics.'),
  protocol: internal('WEFT_PROTOCOL', 0, 'For tests only: the protocol that this process claims to have; 0: its own.'),
  test: internal(
    'WEFT_TEST',
    false,
    'For tests only: adds `POST /internal/truncate`, which empties the store without authentication.',
  ),
} as const

type Value<T> = T extends LogFormat
  ? LogFormat
  : T extends ImageDriver
    ? ImageDriver
    : T extends string
      ? string
      : T extends number
        ? number
        : boolean
export type Config = { readonly [K in keyof typeof SETTINGS]: Value<(typeof SETTINGS)[K]['default']> }

/** Whether the store is a file in the data folder, which one resource worker opens; else a database that several share. */
export const isEmbedded = ({ database_uri, mongodb_url }: Pick<Config, 'database_uri' | 'mongodb_url'>): boolean =>
  database_uri === '' && mongodb_url === ''

/** The keys of the control plane that are set; none: one is generated. */
export const controlKeysOf = ({ control_key }: Pick<Config, 'control_key'>): string[] =>
  control_key
    .split(',')
    .map(key => key.trim())
    .filter(key => key !== '')

/** The application and pool of a graph worker. An application with a name of its own has its own pool by default. */
export const servedBy = ({ app_id, pool }: Pick<Config, 'app_id' | 'pool'>): Sender => ({
  app: app_id,
  pool: app_id !== BUILT_IN_APP && pool === SETTINGS.pool.default ? app_id : pool,
})

/** Settings that grant access. A process that has read them removes their variables, so that its children get none. */
export const SECRET_SETTINGS = [
  'nats_url',
  'nats_issuer',
  'graphs_nats_url',
  'database_uri',
  'postgres_uri',
  'mongodb_url',
  'control_key',
  'encryption_key',
  'aes_key',
  'webhook_secret',
  'push_secret',
  'otlp_headers',
] as const satisfies readonly (keyof typeof SETTINGS)[]

/** The environment without the variables of secret settings. */
export function withoutSecrets<T>(env: { [name: string]: T }): { [name: string]: T } {
  const secret = new Set<string>(SECRET_SETTINGS.map(name => SETTINGS[name].env))
  return Object.fromEntries(Object.entries(env).filter(([name]) => !secret.has(name)))
}

const LOG_FORMATS = ['auto', 'pretty', 'json'] as const
type LogFormat = (typeof LOG_FORMATS)[number]

const IMAGE_DRIVERS = ['', 'docker', 'kubernetes'] as const
export type ImageDriver = (typeof IMAGE_DRIVERS)[number]

/** Reads all settings; throws a RangeError with one sentence when a value is not of its kind. */
export function readConfig(
  env: { [name: string]: string | undefined },
  given: { [K in keyof Config]?: Config[K] } = {},
): Config {
  const out: { [name: string]: unknown } = {}
  for (const [name, { env: variable, default: fallback }] of Object.entries(SETTINGS)) {
    const text = env[variable]
    out[name] = text === undefined || text === '' ? fallback : parse(variable, text, fallback)
  }
  for (const [name, value] of Object.entries(given)) if (value !== undefined) out[name] = value
  if (controlKeysOf({ control_key: out.control_key as string }).some(key => key.length < 16))
    throw new RangeError('WEFT_CONTROL_KEY must have at least 16 characters, and so must each of several keys')
  if (typeof out.push_secret === 'string' && out.push_secret !== '' && out.push_secret.length < 16)
    throw new RangeError('WEFT_PUSH_SECRET must have at least 16 characters')
  if (!LOG_FORMATS.includes(out.log_format as LogFormat))
    throw new RangeError(`LOG_FORMAT must be ${LOG_FORMATS.join(', ')}, not "${out.log_format}"`)
  if (!IMAGE_DRIVERS.includes(out.image_driver as ImageDriver))
    throw new RangeError(
      `WEFT_IMAGE_DRIVER must be ${IMAGE_DRIVERS.slice(1).join(', ')} or empty, not "${out.image_driver}"`,
    )
  if (![1, 2, 3, 4, 5].includes(out.nats_replicas as number))
    throw new RangeError(`WEFT_NATS_REPLICAS must be a whole number from 1 to 5, not "${out.nats_replicas}"`)
  if ((out.trace_ratio as number) > 1) throw new RangeError('OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1')
  out.database_uri ||= out.postgres_uri
  if (out.database_uri !== '' && out.mongodb_url !== '')
    throw new RangeError('DATABASE_URI and MONGODB_URL both name a store: expected one of them')
  out.public_url = addressOf('WEFT_PUBLIC_URL', out.public_url as string)
  out.console_url = addressOf('WEFT_CONSOLE_URL', out.console_url as string)
  checkConsole(out as Pick<Config, 'console_url' | 'public_url'>)
  return Object.freeze(out) as Config
}

/** An origin that is not that of the server, where pages of applications are. */
function checkConsole({ console_url, public_url }: Pick<Config, 'console_url' | 'public_url'>): void {
  if (console_url === '') return
  const { origin } = new URL(console_url)
  if (origin !== console_url)
    throw new RangeError('WEFT_CONSOLE_URL must be an origin without a path, as https://console.example.com')
  if (public_url !== '' && new URL(public_url).host === new URL(console_url).host)
    throw new RangeError('WEFT_CONSOLE_URL must have another host than WEFT_PUBLIC_URL')
}

/** Without the slash at its end. */
function addressOf(variable: string, text: string): string {
  if (text === '') return ''
  const url = URL.canParse(text) ? new URL(text) : null
  const isPlain = url !== null && url.username === '' && url.search === '' && url.hash === ''
  if (!isPlain || !/^https?:$/.test(url.protocol))
    throw new RangeError(`${variable} must be an http or https URL without user, query and fragment`)
  return url.href.replace(/\/+$/, '')
}

function parse(variable: string, text: string, fallback: unknown): unknown {
  if (typeof fallback === 'number') {
    const value = Number(text)
    if (!Number.isFinite(value) || value < 0)
      throw new RangeError(`${variable} must be a number of at least 0, not "${text}"`)
    return value
  }
  if (typeof fallback === 'boolean') return ['1', 'true', 'yes'].includes(text.toLowerCase())
  return text
}
