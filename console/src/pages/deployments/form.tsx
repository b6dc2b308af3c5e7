import { useState } from 'react'
import { control } from '../../api/control'
import { Button } from '../../ui/button'
import { Field } from '../../ui/field'
import { Trouble } from '../../ui/notice'
import { useSending } from '../../ui/use-sending'
import { Secrets } from './secrets'
import type { Deployment, Secret } from './types'

interface FormProps {
  /** Null: a new one; else a new revision of this one. */
  deployment: Deployment | null
  close: () => void
  /** Called with the deployment when it was created or changed. */
  done: (deployment: Deployment) => void
}

const SOURCES = { github: 'A git repository', external_docker: 'A container image' }
type Texts = { [name: string]: string }

/** Where a deployment comes from, how it is built, and its secrets. */
export function DeploymentForm({ deployment, close, done }: FormProps) {
  const [source, setSource] = useState(deployment?.source ?? 'github')
  const [texts, setTexts] = useState<Texts>(() => textsOf(deployment))
  const [secrets, setSecrets] = useState<readonly Secret[] | null>(null)
  const { busy, error, send } = useSending(() => {})
  const isGit = source === 'github'
  const isImage = source === 'external_docker'
  const isNew = deployment === null
  const work = () =>
    control<Deployment>(isNew ? '/v2/deployments' : `/v2/deployments/${deployment.id}`, {
      method: isNew ? 'POST' : 'PATCH',
      body: { ...bodyOf(texts, source, isNew), ...(secrets === null ? {} : { secrets }) },
    }).then(done)
  const text = (name: string, label: string, hint?: string, options: { required?: boolean; pattern?: string } = {}) => (
    <Field label={label} hint={hint}>
      {id => (
        <input
          id={id}
          {...options}
          spellCheck={false}
          autoComplete="off"
          value={texts[name] ?? ''}
          onChange={event => setTexts({ ...texts, [name]: event.target.value })}
        />
      )}
    </Field>
  )
  return (
    <form
      className="card cron-form"
      aria-label={isNew ? 'Deployment' : 'Revision'}
      onSubmit={event => {
        event.preventDefault()
        void send(work)
      }}
    >
      <div className="two">
        {isNew && (
          <>
            {text('name', 'Name', 'Letters, digits, hyphens and underscores.', { required: true })}
            <Field label="Source">
              {id => (
                <select id={id} value={source} onChange={event => setSource(event.target.value as typeof source)}>
                  {Object.entries(SOURCES).map(([value, label]) => (
                    <option key={value} value={value}>
                      {label}
                    </option>
                  ))}
                </select>
              )}
            </Field>
          </>
        )}
        {isGit && isNew && text('repo_url', 'Repository', 'https, ssh or git@host:path.', { required: true })}
        {isGit && text('repo_ref', 'Branch, tag or commit', 'A tag as refs/tags/<name>.', { required: true })}
        {!isImage && text('graph_config_path', 'Application file', undefined, { required: true })}
        {isGit && isNew && (
          <Field label="Type">
            {id => (
              <select
                id={id}
                value={texts.deployment_type}
                onChange={event => setTexts({ ...texts, deployment_type: event.target.value })}
              >
                {['dev_free', 'dev', 'prod'].map(type => (
                  <option key={type}>{type}</option>
                ))}
              </select>
            )}
          </Field>
        )}
        {!isImage && text('install_command', 'Install command', 'Empty: what the lock file says.')}
        {!isImage && text('build_command', 'Build command', 'Empty: none.')}
        {isImage && text('image_uri', 'Image', 'registry/name:tag', { required: true })}
      </div>
      <Secrets value={secrets ?? deployment?.secrets ?? []} onChange={setSecrets} />
      <Trouble error={error} />
      <div className="actions">
        <Button kind="primary" type="submit" disabled={busy}>
          {isNew ? 'Create' : 'Deploy'}
        </Button>
        <Button onClick={close}>Close</Button>
      </div>
    </form>
  )
}

function textsOf(deployment: Deployment | null): Texts {
  if (deployment === null) return { deployment_type: 'dev', repo_ref: 'main', graph_config_path: 'langgraph.json' }
  const { source_config, source_revision_config } = deployment
  const { repo_ref, graph_config_path, image_uri } = source_revision_config
  const { install_command, build_command } = source_config
  const all = { repo_ref, graph_config_path, image_uri, install_command, build_command }
  return Object.fromEntries(Object.entries(all).map(([name, text]) => [name, text ?? '']))
}

/** Members that another source has are left out: the server refuses them. */
function bodyOf(texts: Texts, source: Deployment['source'], isNew: boolean): object {
  const isGit = source === 'github'
  const { name, repo_url, deployment_type, install_command, build_command, repo_ref, graph_config_path, image_uri } =
    texts
  const commands = { install_command, build_command }
  const source_revision_config =
    source === 'external_docker' ? { image_uri } : { graph_config_path, ...(isGit ? { repo_ref } : {}) }
  if (!isNew)
    return source === 'external_docker'
      ? { source_revision_config }
      : { source_config: commands, source_revision_config }
  return {
    name,
    source: isGit ? 'github' : 'external_docker',
    source_config: isGit ? { repo_url, deployment_type, ...commands } : { resource_spec: {} },
    source_revision_config,
  }
}
