/** The environment of the programs of a deployment. */
import type { Config } from '../../../schemas/config.js'
import { addressEnv } from '../server-address.js'
import { withoutCredentials } from './credentials.js'

interface RevisionNames {
  deployment_id: string
  slug: string
  revision_id: string
  name?: string
}

/**
 * The environment of the application. Variables of the platform override secrets, and both override the `env` of
 * langgraph.json; secrets may override LANGGRAPH_API_URL.
 */
export const hostEnv = (
  { ours, config }: { ours: NodeJS.ProcessEnv; config: Config },
  { deployment_id, slug, revision_id, name }: RevisionNames,
  secrets: { [name: string]: string },
): { [name: string]: string } => ({
  ...inheritedEnv(ours),
  ...addressEnv(ours.LANGGRAPH_API_URL || config.public_url, slug),
  ...withoutCredentials(secrets),
  ...(name === undefined ? {} : { LANGSMITH_DEPLOYMENT_NAME: name }),
  PATH: ours.PATH ?? '',
  LANGSMITH_HOST_PROJECT_ID: deployment_id,
  LANGSMITH_HOST_REVISION_ID: revision_id,
})

const INHERITED = ['PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE']
const PROXIES = ['http_proxy', 'https_proxy', 'no_proxy', 'all_proxy']

/** Variables that any program needs; no setting of Weft. */
export function inheritedEnv(ours: NodeJS.ProcessEnv): { [name: string]: string } {
  const names = [...INHERITED, ...PROXIES, ...PROXIES.map(name => name.toUpperCase())]
  return Object.fromEntries(names.flatMap(name => (ours[name] === undefined ? [] : [[name, ours[name]]])))
}
