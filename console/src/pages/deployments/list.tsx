import { useState } from 'react'
import { Link, useLocation } from 'wouter'
import { listAll } from '../../api/control'
import { useLoad } from '../../api/load'
import { Button } from '../../ui/button'
import { ListTable } from '../../ui/list-table'
import { Empty } from '../../ui/notice'
import { Page } from '../../ui/page'
import { Status } from '../../ui/status'
import { Ago } from '../../ui/time'
import { ForgetKey, Gate } from '../control/gate'
import { DeploymentForm } from './form'
import { type Deployment, sourceText, wordsOf } from './types'

const EVERY_MS = 5_000

/** Every deployment of the server. */
export function DeploymentList() {
  const deployments = useLoad('deployments', signal => listAll<Deployment>('/v2/deployments', signal), {
    every: EVERY_MS,
  })
  const [creating, setCreating] = useState(false)
  const [, go] = useLocation()
  return (
    <Page
      title="Deployments"
      note="Applications that this server builds and runs, each below an address of its own."
      actions={
        <>
          <ForgetKey />
          {deployments.data !== undefined && (
            <Button kind="primary" icon="plus" aria-expanded={creating} onClick={() => setCreating(true)}>
              New deployment
            </Button>
          )}
        </>
      }
    >
      {creating && (
        <DeploymentForm
          deployment={null}
          close={() => setCreating(false)}
          done={({ id }) => go(`/deployments/${id}`)}
        />
      )}
      <div className="card scroll-x">
        <Gate of={deployments} scope="deployments">
          {rows => (
            <ListTable
              rows={rows}
              columns={['Name', 'Status', 'Revision', 'Source', 'Changed']}
              empty={
                <Empty title="No deployment yet" icon="rocket">
                  A deployment comes from a git repository or from a container image.
                </Empty>
              }
            >
              {({ id, name, status, source_config, source_revision_config, updated_at, ...revisions }) => (
                <tr key={id}>
                  <td>
                    <Link href={`/deployments/${id}`}>{name}</Link>
                  </td>
                  <td>
                    <Status of={wordsOf(status)} />
                  </td>
                  <td>{servingText(revisions)}</td>
                  <td>
                    {source_config.repo_url} <span className="muted">{sourceText(source_revision_config)}</span>
                  </td>
                  <td>
                    <Ago at={updated_at} />
                  </td>
                </tr>
              )}
            </ListTable>
          )}
        </Gate>
      </div>
    </Page>
  )
}

function servingText({
  active_revision_id: active,
  latest_revision_id: latest,
}: Pick<Deployment, 'active_revision_id' | 'latest_revision_id'>): string {
  if (active === null) return 'none serves yet'
  return active === latest ? 'the latest serves' : 'an earlier one serves'
}
