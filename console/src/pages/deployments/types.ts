/** Deployments and revisions, as far as the console shows them (docs/control-plane.md). */
export interface Deployment {
  id: string
  name: string
  source: 'github' | 'external_docker' | 'internal_source'
  source_config: {
    repo_url: string | null
    deployment_type: string | null
    custom_url: string | null
    install_command: string | null
    build_command: string | null
    resource_spec: { [name: string]: unknown } | null
  }
  source_revision_config: RevisionConfig
  secrets: Secret[]
  created_at: string
  updated_at: string
  status: string
  latest_revision_id: string | null
  active_revision_id: string | null
}

export interface RevisionConfig {
  repo_ref: string | null
  graph_config_path: string | null
  image_uri: string | null
  repo_commit_sha: string | null
  source_tarball_path?: string | null
}

export interface Revision {
  id: string
  created_at: string
  status: string
  status_message: string | null
  source_revision_config: RevisionConfig
  redeploy_of: string | null
  started_at: string | null
  finished_at: string | null
}

export interface Secret {
  name: string
  value: string
}

/** The server answers this text in place of the value of a secret. A client that sends it back keeps the stored value. */
export const MASK = '********'

const ENDED = /^(DEPLOYED|SKIPPED|INTERRUPTED|UNKNOWN|.*_FAILED)$/
export const hasEnded = ({ status }: Revision): boolean => ENDED.test(status)

/** Ids begin with their time, so those of one minute differ at the end only. */
export const shortId = (id: string): string => id.slice(-8)

/** AWAITING_BUILD as "awaiting build". */
export const wordsOf = (status: string): string => status.toLowerCase().replaceAll('_', ' ')

/** The source of a revision as text: a reference and its commit, an image, or an upload. */
export function sourceText({ repo_ref, repo_commit_sha, image_uri, source_tarball_path }: RevisionConfig): string {
  if (image_uri !== null) return image_uri
  if (source_tarball_path) return 'upload'
  return [repo_ref, repo_commit_sha?.slice(0, 7)].filter(Boolean).join(' @ ')
}
