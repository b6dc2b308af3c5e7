/** `weft threads answer`: answers the question that a thread waits with, or shows it. */
import { paint, printJson } from '../terminal/text.js'
import { UserError } from '../user-error.js'
import { type Client, type ClientFlags, openClient, Refused } from './client.js'

interface AnswerFlags extends ClientFlags {
  value?: string
  approve?: true
  /** True: without a reason. */
  reject?: string | true
  question?: string
}

interface Question {
  id?: string
  value?: unknown
}

interface State {
  next: string[]
  tasks: { name: string; interrupts: Question[] }[]
  metadata: { assistant_id?: string; graph_id?: string } | null
}

const HOW = 'answer with --approve, --reject [reason] or --value JSON'

export async function answerThread(thread_id: string, flags: AnswerFlags): Promise<void> {
  const given = [flags.value, flags.approve, flags.reject].filter(one => one !== undefined)
  if (given.length > 1) throw new UserError('expected one of --approve, --reject and --value', 2)
  const value = flags.value === undefined ? undefined : jsonOf(flags.value)
  const client = openClient(flags)
  const path = `/threads/${encodeURIComponent(thread_id)}`
  const state = await client.ask<State>('GET', `${path}/state`)
  const waiting = state.tasks.flatMap(({ interrupts }) => interrupts)
  if (waiting.length === 0)
    throw new UserError(`thread ${thread_id} waits with no question${state.next.length > 0 ? ', it only stopped' : ''}`)
  if (given.length === 0) return show(thread_id, waiting, flags)

  const asked = chosen(waiting, flags)
  const answers = asked.map(question => [question.id, flags.value === undefined ? answerOf(question, flags) : value])
  const resume = waiting.length === 1 ? answers[0]![1] : Object.fromEntries(answers)
  const run = await goOn(client, path, state, resume)
  if (flags.json) printJson({ thread_id, ...run })
  else process.stdout.write(`answered ${thread_id}, run ${run.run_id}\n`)
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new UserError(`--value must be JSON, a text in quotes as '"yes"', not ${text}`, 2)
  }
}

/** The questions that the flags answer. Those of a person, yes or no, may be all. */
function chosen(waiting: Question[], { question, value }: AnswerFlags): Question[] {
  const ids = () => waiting.map(({ id }) => id).join(', ')
  if (question !== undefined) {
    const found = waiting.filter(({ id }) => id === question)
    if (found.length === 0) throw new UserError(`no question ${question} waits, but ${ids()}`)
    return found
  }
  if (waiting.length > 1 && value !== undefined)
    throw new UserError(`${waiting.length} questions wait: --question must name one of ${ids()}`, 2)
  return waiting
}

/** Yes or no: a decision for each action when the question is that of LangChain's middleware, else true or false. */
function answerOf({ value }: Question, { reject }: AnswerFlags): unknown {
  const { action_requests, actionRequests } = (value ?? {}) as { [name: string]: unknown }
  const requests = action_requests ?? actionRequests
  if (!Array.isArray(requests)) {
    if (typeof reject === 'string')
      throw new UserError('this question takes no reason: use --reject alone, or --value JSON', 2)
    return reject === undefined
  }
  const decision =
    reject === undefined
      ? { type: 'approve' }
      : { type: 'reject', ...(typeof reject === 'string' ? { message: reject } : {}) }
  return { decisions: requests.map(() => decision) }
}

/** A run of the assistant that asked, or of its graph when that assistant is gone. */
async function goOn(client: Client, path: string, { metadata }: State, resume: unknown) {
  const { assistant_id, graph_id } = metadata ?? {}
  const start = (id: string | undefined) =>
    client.ask<{ run_id: string; assistant_id: string }>('POST', `${path}/runs`, {
      // Two people answer: the second answer is not meant for what the graph asks next.
      body: { assistant_id: id, command: { resume }, multitask_strategy: 'reject', stream_resumable: true },
    })
  const run = await start(assistant_id ?? graph_id).catch((error: Error) => {
    if (!(error instanceof Refused && error.status === 404) || graph_id === undefined || assistant_id === undefined)
      throw error
    return start(graph_id)
  })
  return { run_id: run.run_id, assistant_id: run.assistant_id }
}

function show(thread_id: string, waiting: Question[], { json }: ClientFlags): void {
  if (json) return printJson({ thread_id, questions: waiting })
  for (const { id, value } of waiting)
    process.stdout.write(
      `${paint(id ?? 'question', 'cyan')} ${typeof value === 'string' ? value : JSON.stringify(value, null, 2)}\n`,
    )
  process.stdout.write(`${HOW}\n`)
}
