/**
 * Every variable Weft reads, its default and what it is for: one literal, read once in a main.ts, frozen and passed on.
 * A test compares docs/configuration.md with it.
 */
export interface Setting<T> {
  env: string
  default: T
  doc: string
}

const setting = <T>(env: string, fallback: T, doc: string): Setting<T> => ({ env, default: fallback, doc })

export const SETTINGS = {
  host: setting(
    'WEFT_HOST',
    '127.0.0.1',
    'Address the edge listens on. Any other than loopback needs `--insecure` until keys are configured.',
  ),
  port: setting('PORT', 2024, 'Port of the edge; 0 lets the system choose.'),
  data: setting('WEFT_DATA', '.weft', 'Folder of the embedded store, the NATS server and generated keys.'),
  app: setting('WEFT_APP', 'langgraph.json', 'The application: a langgraph.json or the folder that holds one.'),
  app_id: setting(
    'WEFT_APP_ID',
    'built-in',
    'Name of the application that a graph worker serves; any other than `built-in` is reached under `/deployments/<name>`.',
  ),
  pool: setting('WEFT_POOL', 'default', 'Pool of a graph worker.'),
  slots: setting('N_JOBS_PER_WORKER', 1000, 'Runs that one graph worker executes at the same time.'),
  hosts: setting('WEFT_HOSTS', 0, 'Graph hosts of a graph worker; 0 means one less than the cores, at least one.'),
  host_memory_mb: setting(
    'WEFT_HOST_MEMORY_MB',
    512,
    'JavaScript heap of a graph host in megabytes; a graph that wants more costs its run an attempt.',
  ),
  run_timeout_secs: setting(
    'BG_JOB_TIMEOUT_SECS',
    3600,
    'Seconds that one attempt of a run may take; then it ends with status `timeout`.',
  ),
  nats_url: setting(
    'NATS_URL',
    '',
    'NATS server to use, with credentials if it wants them; `weft start` starts its own when empty.',
  ),
  graphs_nats_url: setting(
    'WEFT_GRAPHS_NATS_URL',
    '',
    'NATS server as the graph workers of deployments reach it, with their credentials; NATS_URL when empty.',
  ),
  mongodb_url: setting('MONGODB_URL', '', 'MongoDB to keep the store in; SQLite in the data folder when empty.'),
  log_level: setting('LOG_LEVEL', 'info', 'error, warn, info, debug or silent.'),
  body_limit: setting(
    'HTTP_MAX_REQUEST_BODY_BYTES',
    64 * 1024 * 1024,
    'Largest request body in bytes; larger ones are answered 413.',
  ),
  bodies_in_flight: setting(
    'WEFT_BODY_BYTES_IN_FLIGHT',
    256 * 1024 * 1024,
    'Bytes of request bodies held at once; beyond it 429.',
  ),
  heartbeat_ms: setting('WEFT_HEARTBEAT_MS', 5000, 'Milliseconds between heartbeat comments on an idle stream.'),
  stall_ms: setting(
    'WEFT_STALL_MS',
    30000,
    'A stream client that takes nothing for so many milliseconds is closed and may resume.',
  ),
  cors_origins: setting(
    'CORS_ALLOW_ORIGINS',
    '*',
    'Comma list of origins a browser may call from; `*` never allows credentials.',
  ),
  allowed_hosts: setting(
    'WEFT_ALLOWED_HOSTS',
    '',
    'Comma list of further Host names the edge answers to (DNS rebinding guard).',
  ),
  insecure: setting('WEFT_INSECURE', false, 'Allow a bind to other than loopback without keys.'),
  disconnect_grace_ms: setting(
    'WEFT_DISCONNECT_GRACE_MS',
    5000,
    'Grace before on_disconnect=cancel takes effect on a resumable run.',
  ),
  keep_ended_ms: setting(
    'WEFT_KEEP_ENDED_MS',
    60000,
    'How long an ended run can still be joined when its stream is not stored.',
  ),
  resumable_ttl_ms: setting('WEFT_RESUMABLE_TTL_MS', 3600000, 'How long the stored stream of a resumable run is kept.'),
  resumable_bytes: setting('WEFT_RESUMABLE_BYTES', 256 * 1024 * 1024, 'Bytes of stream kept per resumable run.'),
  max_file_store: setting(
    'WEFT_MAX_FILE_STORE',
    8 * 1024 * 1024 * 1024,
    'Disk bytes the NATS server that Weft starts may use.',
  ),
  stop_ms: setting('WEFT_STOP_MS', 10000, 'Deadline of an orderly stop.'),
  allow_hosts: setting(
    'WEFT_ALLOW_HOSTS',
    '',
    'Comma list of hosts, host:port, addresses or CIDRs that webhooks may reach although they are not public.',
  ),
  control_key: setting(
    'WEFT_CONTROL_KEY',
    '',
    'Key of the control plane (/v2), at least 16 characters; made at first start and kept in the data folder when empty.',
  ),
  encryption_key: setting(
    'WEFT_ENCRYPTION_KEY',
    '',
    'Key that secrets are encrypted with; a comma list to rotate: the first encrypts, all decrypt. Made at first start and kept in the data folder when empty.',
  ),
  aes_key: setting('LANGGRAPH_AES_KEY', '', 'The same, when WEFT_ENCRYPTION_KEY is empty.'),
  secrets_read: setting(
    'WEFT_SECRETS_READ',
    false,
    'The control plane answers the values of secrets to who has its key, not `********`.',
  ),
  public_url: setting(
    'WEFT_PUBLIC_URL',
    '',
    'Where clients reach this server: what the URLs of deployments begin with (the Host of the request when empty), and what runs are told as `langgraph_api_url`.',
  ),
  local_sources: setting(
    'WEFT_LOCAL_SOURCES',
    '',
    'Comma list of folders below which deployments may be built from local paths and file:// URLs.',
  ),
  build_env: setting(
    'WEFT_BUILD_ENV',
    '',
    'Comma list of variables that installs and builds of deployments may see, beside proxies and PATH.',
  ),
  deploy_stable_ms: setting(
    'WEFT_DEPLOY_STABLE_MS',
    10000,
    'Milliseconds that the replicas of a new revision must have stayed ready before it serves.',
  ),
  cron_seconds: setting(
    'WEFT_CRON_SECONDS',
    false,
    'Take schedules of six fields, too, the first of which is the second.',
  ),
  webhook_secret: setting(
    'WEFT_WEBHOOK_SECRET',
    '',
    'Secret that webhooks are signed with; made at first start and kept in the data folder when empty.',
  ),
  test: setting(
    'WEFT_TEST',
    false,
    'For tests against this server only: adds `POST /internal/truncate`, which empties its store without asking.',
  ),
} as const

type Value<T> = T extends string ? string : T extends number ? number : boolean
export type Config = { readonly [K in keyof typeof SETTINGS]: Value<(typeof SETTINGS)[K]['default']> }

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
  if (typeof out.control_key === 'string' && out.control_key !== '' && out.control_key.length < 16)
    throw new RangeError('WEFT_CONTROL_KEY must have at least 16 characters')
  out.public_url = addressOf(out.public_url as string)
  return Object.freeze(out) as Config
}

/** Without the slash at its end. */
function addressOf(text: string): string {
  if (text === '') return ''
  const url = URL.canParse(text) ? new URL(text) : null
  const isPlain = url !== null && url.username === '' && url.search === '' && url.hash === ''
  if (!isPlain || !/^https?:$/.test(url.protocol))
    throw new RangeError('WEFT_PUBLIC_URL must be an http or https URL without user, query and fragment')
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
