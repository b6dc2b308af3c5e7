/**
 * The table of settings in docs/configuration.md, made from SETTINGS of schemas/config.ts and the sections below. `npm run
 * settings` writes it; a test compares.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { root } from '../../cli/root.js'
import { type Config, SETTINGS } from '../../schemas/config.js'

/** Title, and its settings with the roles that read each, comma-separated. */
const SECTIONS: readonly (readonly [title: string, rows: { readonly [name in keyof Config]?: string }])[] = [
  [
    'Application and graph workers',
    {
      app: 'graphs',
      app_id: 'graphs',
      pool: 'graphs',
      slots: 'graphs',
      scheduling: 'resources',
      hosts: 'graphs',
      host_node: 'edge, graphs, deployer',
      host_user: 'graphs, deployer',
      host_sandbox: 'edge, graphs, deployer',
      python: 'graphs',
      host_memory_mb: 'graphs',
      start_secs: 'start',
      run_timeout_secs: 'graphs',
    },
  ],
  [
    'HTTP',
    {
      host: 'edge',
      port: 'edge',
      insecure: 'edge',
      require_keys: 'edge',
      studio_auth: 'edge',
      public_url: 'edge, graphs, deployer',
      console_url: 'edge',
      cors_origins: 'edge',
      configurable_headers: 'edge',
      allowed_hosts: 'edge',
      body_limit: 'edge',
      max_connections: 'edge',
      trusted_proxies: 'edge',
    },
  ],
  [
    'Streams',
    {
      resumable_ttl_ms: 'resources',
      run_spans_hours: 'resources, graphs',
    },
  ],
  [
    'Store and broker',
    {
      data: 'all',
      database_uri: 'resources',
      mongodb_url: 'resources',
      nats_url: 'all',
      graphs_nats_url: 'deployer',
      nats_ca: 'all',
      nats_cert: 'all',
      nats_replicas: 'resources',
      nats_cluster: 'resources',
      nats_issuer: 'resources',
      nats_tags: 'resources',
      min_free_mb: 'resources',
      max_file_store: 'start, resources',
    },
  ],
  [
    'Crons, webhooks and outside addresses',
    {
      cron_seconds: 'resources',
      webhook_secret: 'resources',
      otlp_endpoint: 'all',
      allow_hosts: 'resources, deployer',
    },
  ],
  [
    'Control plane and deployments',
    {
      control_key: 'resources, edge',
      encryption_key: 'resources',
      encrypt_states: 'resources',
      secrets_read: 'resources',
      oauth_redirects: 'resources',
      oauth_same_browser: 'resources',
      local_sources: 'resources, deployer',
      upload_mb: 'edge, resources',
      build_disk_mb: 'deployer',
      git_credentials_file: 'deployer',
      git_ssh_key_file: 'deployer',
      build_env: 'deployer',
      cgroup: 'deployer',
      push_secret: 'resources',
      image_driver: 'deployer',
      docker_host: 'deployer',
      docker_network: 'deployer',
      docker_auth: 'deployer',
      kubeconfig: 'deployer',
      kubernetes_namespaces: 'deployer',
      kubernetes_service_accounts: 'deployer',
      image_labels: 'deployer',
      kubernetes_keda: 'deployer',
      scale_runs: 'deployer',
    },
  ],
  [
    'Every role',
    {
      log_level: 'all',
      log_format: 'all',
      stop_ms: 'all',
    },
  ],
]
const ROLES = ['all', 'start', 'edge', 'resources', 'graphs', 'deployer']

const PAGE = 'docs/configuration.md'
const MARK = '<!-- settings -->'

/** The sections as Markdown. Throws for a setting that is in no section, or that operators do not set. */
function tables(): string {
  const left = new Set(Object.entries(SETTINGS).flatMap(([name, { isInternal }]) => (isInternal ? [] : [name])))
  const text = SECTIONS.map(([title, rows]) => {
    const lines = Object.entries(rows).map(([name, roles]) => {
      if (!left.delete(name)) throw new Error(`scripts/checks/settings-table.ts: ${name} is no setting of operators`)
      const unknown = roles.split(', ').find(role => !ROLES.includes(role))
      if (unknown !== undefined) throw new Error(`scripts/checks/settings-table.ts: ${name}: "${unknown}" is no role`)
      const { env, default: fallback, doc } = SETTINGS[name as keyof Config]
      return `| \`${env}\` |${fallback === '' ? '' : ` \`${fallback}\``} | ${roles} | ${doc} |\n`
    })
    return `## ${title}\n\n| variable | default | read by | meaning |\n|---|---|---|---|\n${lines.join('')}`
  })
  if (left.size > 0)
    throw new Error(
      `scripts/checks/settings-table.ts: add ${[...left].join(', ')} to a section, with the roles that read it`,
    )
  return text.join('\n')
}

/** The page with the present tables. */
export function withTables(page: string): string {
  const parts = page.split(MARK)
  return [parts[0], `\n${tables()}`, parts[2]].join(MARK)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const file = join(root, PAGE)
  writeFileSync(file, withTables(readFileSync(file, 'utf8')))
}
