/** Threads beside each other, each a conversation with an assistant. The address holds their ids. */
import { useState } from 'react'
import { useLocation, useParams } from 'wouter'
import { client } from '../api/client'
import { useLoad } from '../api/load'
import { Button } from '../ui/button'
import { Empty, LoadedView } from '../ui/notice'
import '../styles/chat.css'
import { Conversation } from './chat/conversation'
import { ThreadList } from './chat/thread-list'

/** Stands for a thread that does not exist yet. */
const NEW = 'new'

export default function Chat() {
  const { ids = NEW } = useParams()
  const [, go] = useLocation()
  const [listed, setListed] = useState(false)
  // A pane keeps its stream when its thread gets an id.
  const [names, setNames] = useState<{ [id: string]: string }>({})
  const assistants = useLoad('assistants', () => client.assistants.search({ limit: 100 }))
  const panes = ids.split(',').filter(Boolean)
  const show = (next: string[]) => go(`/chat/${next.join(',') || NEW}`, { replace: true })
  const nameOf = (id: string) => names[id] ?? id

  return (
    <div className="chat">
      <ThreadList
        open={listed}
        chosen={panes}
        onChoose={id => {
          setListed(false)
          go(`/chat/${id}`)
        }}
        onBeside={id => show([...panes.filter(one => one !== NEW), id])}
        onNew={() => {
          setListed(false)
          setNames({})
          go(`/chat/${NEW}`)
        }}
      />
      <div className="panes">
        <LoadedView of={assistants}>
          {list =>
            list.length === 0 ? (
              <Empty title="No assistant yet">A graph worker registers one for each graph that it serves.</Empty>
            ) : (
              panes.map((id, i) => (
                <Conversation
                  key={nameOf(id)}
                  threadId={id === NEW ? null : id}
                  assistants={list}
                  onThreadId={created => {
                    setNames({ ...names, [created]: nameOf(id) })
                    show(panes.map((one, at) => (at === i ? created : one)))
                  }}
                  onClose={panes.length === 1 ? null : () => show(panes.filter((_, at) => at !== i))}
                  before={<Button kind="ghost" icon="menu" label="Threads" onClick={() => setListed(!listed)} />}
                />
              ))
            )
          }
        </LoadedView>
      </div>
    </div>
  )
}
