/** A client of the control plane: plain HTTP with the key. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Deployment, Revision, RevisionStatus } from '../../schemas/deployments.js'

export const KEY = 'control-key-of-the-tests'
/** Settings of a server under test: deployments from `sources`, with a short stable time. */
export const deployEnv = (sources: string) => ({
  WEFT_CONTROL_KEY: KEY,
  WEFT_LOCAL_SOURCES: sources,
  WEFT_DEPLOY_STABLE_MS: '200',
})

export interface Answer<T> {
  status: number
  body: T
}

const OVER: readonly RevisionStatus[] = [
  'DEPLOYED',
  'CREATE_FAILED',
  'BUILD_FAILED',
  'DEPLOY_FAILED',
  'SKIPPED',
  'INTERRUPTED',
]

export function controlOf(url: string) {
  async function ask<T>(method: string, path: string, body?: unknown): Promise<Answer<T>> {
    const answer = await fetch(`${url}${path}`, {
      method,
      headers: { 'x-api-key': KEY, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    return { status: answer.status, body: (text === '' ? null : JSON.parse(text)) as T }
  }
  async function askOrThrow<T>(method: string, path: string, body?: unknown): Promise<T> {
    const answer = await ask<T>(method, path, body)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
    return answer.body
  }

  const control = {
    ask,
    create: (
      name: string,
      repo_url: string,
      more: { ref?: string; path?: string; secrets?: object[]; config?: object } = {},
    ) =>
      askOrThrow<Deployment>('POST', '/v2/deployments', {
        name,
        source: 'github',
        source_config: { repo_url, ...more.config },
        source_revision_config: { repo_ref: more.ref ?? 'main', graph_config_path: more.path ?? 'langgraph.json' },
        secrets: more.secrets ?? [],
      }),
    createImage: (name: string, image_uri: string, resource_spec: object = {}, secrets: object[] = []) =>
      askOrThrow<Deployment>('POST', '/v2/deployments', {
        name,
        source: 'external_docker',
        source_config: { resource_spec },
        source_revision_config: { image_uri },
        secrets,
      }),
    get: (id: string) => askOrThrow<Deployment>('GET', `/v2/deployments/${id}`),
    /** The deployment of this name. */
    async find(name: string): Promise<Deployment> {
      const { resources } = await askOrThrow<{ resources: Deployment[] }>('GET', `/v2/deployments?name=${name}`)
      return control.get(resources[0]!.id)
    },
    patch: (id: string, body: object) => askOrThrow<Deployment>('PATCH', `/v2/deployments/${id}`, body),
    /** A new revision of the branch. */
    again: (id: string, ref = 'main') => control.patch(id, { source_revision_config: { repo_ref: ref } }),
    revision: (id: string, revision_id: string) =>
      askOrThrow<Revision>('GET', `/v2/deployments/${id}/revisions/${revision_id}`),
    interrupt: (id: string, revision_id: string) =>
      askOrThrow('POST', `/v2/deployments/${id}/revisions/${revision_id}/interrupt`),
    remove: (id: string) => ask('DELETE', `/v2/deployments/${id}`),
    /** Resolves to the newest revision when its status is final. */
    async over({ id, latest_revision_id }: Deployment): Promise<Revision> {
      for (;;) {
        const revision = await control.revision(id, latest_revision_id!)
        if (OVER.includes(revision.status)) return revision
        await sleep(100)
      }
    },
    /** Resolves to the newest revision when it has this status. */
    async reaches({ id, latest_revision_id }: Deployment, status: RevisionStatus): Promise<Revision> {
      for (;;) {
        const revision = await control.revision(id, latest_revision_id!)
        if (revision.status === status) return revision
        if (OVER.includes(revision.status)) throw new Error(`it became ${revision.status}: ${revision.status_message}`)
        await sleep(20)
      }
    },
    async deployed(deployment: Deployment): Promise<Revision> {
      const revision = await control.over(deployment)
      if (revision.status === 'DEPLOYED') return revision
      const lines = await control.buildLog(deployment.id, revision.id)
      throw new Error(`${revision.status}: ${revision.status_message}\n${lines.join('\n')}`)
    },
    async buildLog(id: string, revision_id: string): Promise<string[]> {
      const path = `/v1/projects/${id}/revisions/${revision_id}/build_logs`
      const { logs } = await askOrThrow<{ logs: { message: string }[] }>('POST', path, { order: 'asc', limit: 1000 })
      return logs.map(line => line.message)
    },
    /** URL of the deployment. */
    urlOf: ({ source_config }: Deployment): string => source_config.custom_url!,
  }
  return control
}
