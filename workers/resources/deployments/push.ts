/**
 * Webhooks of git hosts (docs/spec/control-plane.md#source-config): a push makes a new revision of each deployment that
 * builds its branch. GitHub signs the body, GitLab sends the secret itself. A repeated delivery makes no second revision,
 * and a replayed older one deploys nothing old: the revision takes the commit that the branch has when it is fetched.
 */
import { createHmac, hash, timingSafeEqual } from 'node:crypto'
import { decodeAs } from '../../../bus/decode.js'
import { bytesHandler, type Reply } from '../../../bus/serve.js'
import type { CallHead } from '../../../schemas/calls.js'
import { validateGithubPush, validateGitlabPush } from '../../../schemas/deployments.js'
import { fail } from '../../../schemas/errors.js'
import { BUILT_IN_APP } from '../../../schemas/ids.js'
import type { Deps } from '../context.js'
import { each } from '../rows/record.js'
import { buildPush } from './change.js'
import { type DeploymentBody, parseRow } from './row.js'
import { repositoryOf } from './rules.js'

interface Push {
  /** `refs/heads/<branch>` */
  ref: string
  commit: string
  /** Addresses of the repository. */
  urls: string[]
}

export const pushes = (deps: Deps) => ({
  github_push: bytesHandler((bytes, { head }) => {
    const secret = secretOf(deps)
    const expected = `sha256=${createHmac('sha256', secret).update(bytes).digest('hex')}`
    if (!isEqual(header(head, 'x-hub-signature-256'), expected))
      throw fail('unauthorized', 'X-Hub-Signature-256 is not the signature of this body with WEFT_PUSH_SECRET')
    // `ping` comes when the webhook is made; others are sent when it asks for more than pushes.
    if (header(head, 'x-github-event') !== 'push') return NOTHING
    const { ref, after, repository } = decodeAs(bytes, validateGithubPush)
    return build(deps, { ref, commit: after, urls: given(Object.values(repository)) })
  }),
  gitlab_push: bytesHandler((bytes, { head }) => {
    if (!isEqual(header(head, 'x-gitlab-token'), secretOf(deps)))
      throw fail('unauthorized', 'X-Gitlab-Token is not WEFT_PUSH_SECRET')
    if (header(head, 'x-gitlab-event') !== 'Push Hook') return NOTHING
    const { ref, after, project } = decodeAs(bytes, validateGitlabPush)
    return build(deps, { ref, commit: after, urls: given(Object.values(project)) })
  }),
})

function secretOf({ config }: Deps): string {
  if (config.push_secret === '')
    throw fail('forbidden', 'Webhooks of git hosts need a secret: WEFT_PUSH_SECRET sets it')
  return config.push_secret
}

const header = ({ push }: CallHead, name: string): string => push?.[name] ?? ''
const given = (urls: unknown[]): string[] => urls.filter(url => typeof url === 'string')

/** In constant time, also for another length. */
const isEqual = (one: string, other: string): boolean => timingSafeEqual(digest(one), digest(other))
const digest = (text: string): Buffer => hash('sha256', text, 'buffer')

/** Git hosts keep the answer for their user: the deployments that build now. */
const answer = (deployments: { deployment_id: string; revision_id: string }[]): Reply => ({
  body: JSON.stringify({ deployments }),
})
const NOTHING = answer([])

/** The commit that a deleted branch points to. */
const NO_COMMIT = /^0+$/

async function build(deps: Deps, { ref, commit, urls }: Push): Promise<Reply> {
  if (NO_COMMIT.test(commit) || !ref.startsWith('refs/heads/')) return NOTHING
  const repositories = new Set(urls.map(repositoryOf))
  const branches = [ref, ref.slice('refs/heads/'.length)]
  const isMeant = ({ source_config, source_revision_config: { repo_ref } }: DeploymentBody) =>
    source_config.build_on_push === true &&
    repositories.has(repositoryOf(source_config.repo_url ?? '')) &&
    branches.includes(repo_ref ?? '')
  const deployments: { deployment_id: string; revision_id: string }[] = []
  for await (const row of each(deps.store, { kind: 'deployment', app: BUILT_IN_APP })) {
    if (!isMeant(parseRow<DeploymentBody>(row).body)) continue
    const revision_id = await buildPush(deps, row.id, commit, isMeant)
    if (revision_id !== null) deployments.push({ deployment_id: row.id, revision_id })
  }
  return answer(deployments)
}
