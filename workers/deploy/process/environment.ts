/** What the programs of a deployment see of this process's environment. */

interface Of {
  deployment_id: string
  revision_id: string
  name?: string
}

/** The environment of the application: what is ours wins over secrets, both over the `env` of its description. */
export const hostEnv = (
  ours: NodeJS.ProcessEnv,
  { deployment_id, revision_id, name }: Of,
  secrets: { [name: string]: string },
): { [name: string]: string } => ({
  ...inheritedBy(ours),
  ...secrets,
  ...(name === undefined ? {} : { LANGSMITH_DEPLOYMENT_NAME: name }),
  PATH: ours.PATH ?? '',
  LANGSMITH_HOST_PROJECT_ID: deployment_id,
  LANGSMITH_HOST_REVISION_ID: revision_id,
})

const INHERITED = ['PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE']
const PROXIES = ['http_proxy', 'https_proxy', 'no_proxy', 'all_proxy']

/** What any program needs; nothing that the operator set for us. */
export function inheritedBy(ours: NodeJS.ProcessEnv): { [name: string]: string } {
  const names = [...INHERITED, ...PROXIES, ...PROXIES.map(name => name.toUpperCase())]
  return Object.fromEntries(names.flatMap(name => (ours[name] === undefined ? [] : [[name, ours[name]]])))
}
