import { useState } from 'react'
import { Link, useLocation } from 'wouter'
import { control, type Listed } from '../../api/control'
import { useLoad } from '../../api/load'
import { Button } from '../../ui/button'
import { CopyButton } from '../../ui/copy'
import { LoadedView, Trouble } from '../../ui/notice'
import { Page } from '../../ui/page'
import { Status } from '../../ui/status'
import { useSending } from '../../ui/use-sending'
import { Gate } from '../control/gate'
import { DeploymentForm } from './form'
import { Log } from './log'
import { Revisions } from './revisions'
import { type Deployment, type Revision, wordsOf } from './types'

const EVERY_MS = 2_000
const REVISIONS = 50

/** One deployment: its settings, its revisions and their logs. */
export function DeploymentView({ id }: { id: string }) {
  const path = `/v2/deployments/${id}`
  const loaded = useLoad(path, signal => control<Deployment>(path, { signal }), { every: EVERY_MS })
  const revisions = useLoad(
    `${path}/revisions`,
    signal => control<Listed<Revision>>(`${path}/revisions?limit=${REVISIONS}`, { signal }),
    { every: EVERY_MS },
  )
  const [changing, setChanging] = useState(false)
  const [shown, setShown] = useState<string | null>(null)
  const reload = () => {
    loaded.reload()
    revisions.reload()
  }
  const { busy, error, send } = useSending(reload)
  const [, go] = useLocation()
  const { data } = loaded
  const post = (revision: Revision, verb: string) =>
    void send(() => control(`${path}/revisions/${revision.id}/${verb}`, { method: 'POST' }))
  const redeploy = (revision: Revision) => {
    setShown(null)
    post(revision, 'redeploy')
  }
  const remove = ({ name }: Deployment) => {
    if (!confirm(`Delete the deployment ${name}, with its threads and runs? This cannot be undone.`)) return
    void send(async () => {
      // Also frees the name.
      await control(`${path}?delete_tracing_project=true`, { method: 'DELETE' })
      go('/deployments')
    })
  }
  return (
    <Page
      title={data?.name ?? 'Deployment'}
      note={<Link href="/deployments">All deployments</Link>}
      actions={
        data !== undefined && (
          <>
            <Button kind="primary" icon="plus" aria-expanded={changing} onClick={() => setChanging(true)}>
              New revision
            </Button>
            <Button kind="danger" icon="trash" disabled={busy} onClick={() => remove(data)}>
              Delete
            </Button>
          </>
        )
      }
    >
      <Trouble error={error} />
      <Gate of={loaded} scope="deployments">
        {deployment => (
          <>
            {changing && (
              <DeploymentForm
                deployment={deployment}
                close={() => setChanging(false)}
                done={() => {
                  setChanging(false)
                  setShown(null)
                  reload()
                }}
              />
            )}
            <Settings deployment={deployment} />
            <LoadedView of={revisions}>
              {({ resources: rows }) => {
                const one = shown ?? rows[0]?.id ?? null
                return (
                  <>
                    <Revisions
                      deployment={deployment}
                      rows={rows}
                      shown={one}
                      show={setShown}
                      busy={busy}
                      redeploy={redeploy}
                      interrupt={revision => post(revision, 'interrupt')}
                    />
                    {one !== null && <Log key={one} deployment={id} revision={one} />}
                  </>
                )
              }}
            </LoadedView>
          </>
        )}
      </Gate>
    </Page>
  )
}

function Settings({ deployment }: { deployment: Deployment }) {
  const { status, source_config, source_revision_config, secrets } = deployment
  const { repo_url, deployment_type, custom_url, install_command, build_command } = source_config
  const { repo_ref, graph_config_path, image_uri } = source_revision_config
  const rows: [name: string, value: string | null][] = [
    ['Repository', repo_url],
    ['Reference', repo_ref],
    ['Application file', graph_config_path],
    ['Image', image_uri],
    ['Type', deployment_type],
    ['Install command', install_command],
    ['Build command', build_command],
    ['Secrets', secrets.map(({ name }) => name).join(', ') || 'none'],
  ]
  return (
    <dl className="card settings" aria-label="Settings">
      <div>
        <dt>Status</dt>
        <dd>
          <Status of={wordsOf(status)} />
        </dd>
      </div>
      {custom_url !== null && (
        <div>
          <dt>Address</dt>
          <dd>
            <a href={`${custom_url}/docs`}>{custom_url}</a> <CopyButton text={custom_url} label="Copy the address" />
          </dd>
        </div>
      )}
      {rows.map(([name, value]) =>
        value === null ? null : (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ),
      )}
    </dl>
  )
}
