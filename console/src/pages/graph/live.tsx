/** A drawing, the input of a run, and the run that lights it up; what it asks is answered here. */
import type { Interrupt } from '@langchain/langgraph-sdk'
import { useEffect, useRef, useState } from 'react'
import { Link } from 'wouter'
import { client } from '../../api/client'
import { Button } from '../../ui/button'
import { Trouble } from '../../ui/notice'
import { Questions } from '../chat/questions'
import { openActivity, type TaskEvent } from './activity'
import { type Input, InputForm } from './input'
import GraphView from './view'

export function LiveGraph({ assistantId }: { assistantId: string }) {
  const [activity] = useState(openActivity)
  const [input, setInput] = useState<Input | undefined>(undefined)
  const [thread, setThread] = useState<string | null>(null)
  const [questions, setQuestions] = useState<Interrupt[] | null>(null)
  const [error, setError] = useState<unknown>(null)
  const running = useRef<AbortController | null>(null)
  const [isRunning, setRunning] = useState(false)
  const [runs, setRuns] = useState(0)
  useEffect(() => () => running.current?.abort(), [])

  /** `thread_id`: null for a new one. */
  async function run(
    thread_id: string | null,
    what: { input: Input } | { command: { resume: unknown } },
  ): Promise<void> {
    const controller = new AbortController()
    running.current = controller
    if (thread_id === null) activity.clear()
    setError(null)
    setQuestions(null)
    setRunning(true)
    try {
      const id = thread_id ?? (await client.threads.create()).thread_id
      setThread(id)
      const events = client.runs.stream(id, assistantId, {
        ...what,
        streamMode: ['tasks'],
        streamSubgraphs: true,
        // Two people answer: the second answer is not meant for what the graph asks next.
        multitaskStrategy: 'reject',
        signal: controller.signal,
      })
      for await (const { event, data } of events) {
        const [name, ...namespace] = (event as string).split('|')
        if (name === 'tasks') activity.note(data as unknown as TaskEvent, namespace)
        if (name === 'error') setError(new Error((data as unknown as { message: string }).message))
      }
      const { status, interrupts } = await client.threads.get(id)
      if (status === 'interrupted') setQuestions(Object.values(interrupts).flat())
      setRuns(last => last + 1)
    } catch (error) {
      if (!controller.signal.aborted) setError(error)
    } finally {
      setRunning(false)
    }
  }

  return (
    <div className="graph-page">
      <section className="card graph-card" aria-label="Drawing">
        <GraphView assistantId={assistantId} activity={activity} />
      </section>
      <div className="graph-side">
        {questions !== null && thread !== null && (
          <Questions
            questions={questions}
            busy={isRunning}
            answer={resume => void run(thread, resume === undefined ? { input: null } : { command: { resume } })}
          />
        )}
        <form
          className="card graph-form"
          aria-label="Run"
          onSubmit={event => {
            event.preventDefault()
            if (input !== undefined) void run(null, { input })
          }}
        >
          <InputForm assistantId={assistantId} round={runs} onChange={setInput} />
          <Trouble error={error} />
          <div className="actions">
            <Button kind="primary" icon="play" type="submit" disabled={isRunning || input === undefined}>
              {isRunning ? 'Running…' : 'Run'}
            </Button>
            {thread !== null && (
              <Link href={`/threads/${thread}`} className="button ghost">
                Inspect the thread
              </Link>
            )}
          </div>
        </form>
      </div>
    </div>
  )
}
