/** One assistant: what it is now, its versions beside each other, and which of them holds. */
import type { AssistantVersion } from '@langchain/langgraph-sdk'
import { useState } from 'react'
import { Link, useLocation } from 'wouter'
import { client } from '../../api/client'
import { useLoad } from '../../api/load'
import { Button } from '../../ui/button'
import { CopyButton } from '../../ui/copy'
import { Differences } from '../../ui/differences'
import { Field } from '../../ui/field'
import { Icon } from '../../ui/icon'
import { Json } from '../../ui/json'
import { LoadedView, Trouble } from '../../ui/notice'
import { Page } from '../../ui/page'
import { Ago } from '../../ui/time'
import { useSending } from '../../ui/use-sending'
import { AssistantForm } from './form'

const LIMIT = 100

export function AssistantView({ assistantId }: { assistantId: string }) {
  const [, go] = useLocation()
  const assistant = useLoad(`assistant ${assistantId}`, () => client.assistants.get(assistantId))
  const versions = useLoad(`versions ${assistantId}`, () =>
    client.assistants.getVersions(assistantId, { limit: LIMIT }),
  )
  const [edits, setEdits] = useState(false)
  const reload = () => {
    assistant.reload()
    versions.reload()
  }
  const { busy, error, send } = useSending(reload)
  const { data } = assistant
  return (
    <Page
      title={data?.name ?? 'Assistant'}
      note={
        <span className="assistant-note">
          {data && <span>{`Graph ${data.graph_id}, version ${data.version}`}</span>}
          <span className="mono">{assistantId}</span>
          <CopyButton text={assistantId} label="Copy the id" />
        </span>
      }
      actions={
        <>
          <Link href={`/graphs/${assistantId}`} className="button">
            <Icon name="graph" />
            Graph
          </Link>
          <Button icon="edit" aria-expanded={edits} onClick={() => setEdits(!edits)}>
            Edit
          </Button>
          <Button
            kind="danger"
            icon="trash"
            disabled={busy}
            onClick={() => {
              if (confirm(`Delete the assistant ${data?.name}, its versions and its crons? Its threads stay.`))
                void send(async () => {
                  await client.assistants.delete(assistantId)
                  go('/assistants')
                })
            }}
          >
            Delete
          </Button>
        </>
      }
    >
      <Trouble error={error} />
      <LoadedView of={assistant}>
        {now => (
          <>
            {edits && (
              <AssistantForm
                key={now.version}
                assistant={now}
                close={() => setEdits(false)}
                done={() => {
                  setEdits(false)
                  reload()
                }}
              />
            )}
            <section className="card" aria-labelledby="now">
              <h2 id="now">Version {now.version}, which runs use</h2>
              <div className="card-body">
                <Json value={contentOf(now)} open={3} />
              </div>
            </section>
            <LoadedView of={versions}>
              {list => (
                <Versions
                  key={list.length}
                  versions={list}
                  current={now.version}
                  busy={busy}
                  setLatest={version => void send(() => client.assistants.setLatest(assistantId, version))}
                />
              )}
            </LoadedView>
          </>
        )}
      </LoadedView>
    </Page>
  )
}

/** The members that a version may change. */
const contentOf = ({ name, description, graph_id, context, config, metadata }: AssistantVersion) => ({
  name,
  description: description ?? null,
  graph_id,
  context,
  config,
  metadata,
})

interface VersionsProps {
  /** The newest first. */
  versions: AssistantVersion[]
  current: number
  busy: boolean
  setLatest: (version: number) => void
}

function Versions({ versions, current, busy, setLatest }: VersionsProps) {
  const numbers = versions.map(({ version }) => version)
  const [after, setAfter] = useState(numbers[0] ?? current)
  const [before, setBefore] = useState(numbers[1] ?? after)
  const find = (version: number) => contentOf(versions.find(one => one.version === version)!)
  const choose = (label: string, value: number, onChange: (version: number) => void) => (
    <Field label={label}>
      {id => (
        <select id={id} value={value} onChange={event => onChange(Number(event.target.value))}>
          {numbers.map(version => (
            <option key={version} value={version}>
              Version {version}
              {version === current ? ', which runs use' : ''}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
  return (
    <div className="two">
      <section className="card" aria-label="Versions">
        <h2>Versions</h2>
        <ul className="rows">
          {versions.map(({ version, created_at, name }) => (
            <li key={version}>
              <div>
                <strong>Version {version}</strong>
                <small className="muted">
                  {name}, <Ago at={created_at} />
                </small>
              </div>
              {version === current ? (
                <span className="status good">in use</span>
              ) : (
                <Button disabled={busy} onClick={() => setLatest(version)}>
                  Use version {version}
                </Button>
              )}
            </li>
          ))}
        </ul>
      </section>
      {numbers.length > 1 && (
        <section className="card" aria-label="Comparison">
          <h2>Compared</h2>
          <div className="card-body compared">
            <div className="two">
              {choose('From', before, setBefore)}
              {choose('To', after, setAfter)}
            </div>
            <Differences before={find(before)} after={find(after)} same="Both versions are the same." />
          </div>
        </section>
      )}
    </div>
  )
}
