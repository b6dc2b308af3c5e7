/** The wire forms of OpenAI: chat completions, responses and embeddings. */
import { randomUUID } from 'node:crypto'
import type { Schema } from '../sample.js'
import { halves, type Question, type Reply, type Tool, textOf } from './answer.js'

type Json = { [name: string]: unknown }
/** The events of a stream, without their framing; a text is sent as it is. */
export type Wire = {
  question(body: Json): Question
  whole(body: Json, reply: Reply): Json
  parts(body: Json, reply: Reply): (Json | string)[]
}

const USAGE = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
const SECONDS = 1_700_000_000

const forcedOf = (choice: unknown): string | true | undefined => {
  if (choice === 'required' || choice === 'any') return true
  const named = choice as { name?: string; function?: { name: string } } | undefined
  return typeof choice === 'object' && choice !== null ? (named!.function?.name ?? named!.name) : undefined
}

export const chatCompletions: Wire = {
  question({ messages, tools, tool_choice, response_format }) {
    const last = (messages as { role: string; content: unknown }[]).at(-1)!
    const offered = (tools ?? []) as { function: { name: string; parameters?: Schema } }[]
    return {
      last: { role: last.role, text: textOf(last.content) },
      tools: offered.map(({ function: { name, parameters = {} } }) => ({ name, schema: parameters })),
      forced: forcedOf(tool_choice),
      format: (response_format as { json_schema?: { schema: Schema } } | undefined)?.json_schema?.schema,
    }
  },
  whole({ model }, reply) {
    const message =
      'text' in reply
        ? { role: 'assistant', content: reply.text }
        : { role: 'assistant', content: null, tool_calls: [chatCall(reply)] }
    const finish_reason = 'text' in reply ? 'stop' : 'tool_calls'
    const choices = [{ index: 0, message, finish_reason, logprobs: null }]
    return { id: newId('chatcmpl'), object: 'chat.completion', created: SECONDS, model, choices, usage: USAGE }
  },
  parts({ model }, reply) {
    const id = newId('chatcmpl')
    const chunk = (delta: Json, finish_reason: string | null = null) => ({
      ...{ id, object: 'chat.completion.chunk', created: SECONDS, model },
      choices: [{ index: 0, delta, finish_reason, logprobs: null }],
    })
    const deltas =
      'text' in reply
        ? halves(reply.text).map(content => ({ content }))
        : [{ tool_calls: [{ index: 0, ...chatCall(reply) }] }]
    const usage = { id, object: 'chat.completion.chunk', created: SECONDS, model, choices: [], usage: USAGE }
    const end = chunk({}, 'text' in reply ? 'stop' : 'tool_calls')
    return [chunk({ role: 'assistant', content: '' }), ...deltas.map(delta => chunk(delta)), end, usage, '[DONE]']
  },
}

export const responses: Wire = {
  question({ input, tools, tool_choice, text }) {
    const items = typeof input === 'string' ? [{ role: 'user', content: input }] : (input as Json[])
    const last = items.at(-1)!
    const offered = ((tools ?? []) as (Tool & { type: string; parameters: Schema })[]).filter(
      ({ type }) => type === 'function',
    )
    const format = (text as { format?: { type: string; schema?: Schema } } | undefined)?.format
    return {
      last: { role: (last.role as string | undefined) ?? 'tool', text: textOf(last.content) },
      tools: offered.map(({ name, parameters }) => ({ name, schema: parameters })),
      forced: forcedOf(tool_choice),
      format: format?.schema,
    }
  },
  whole: ({ model }, reply) => response(model, [outputItem(reply)]),
  parts({ model }, reply) {
    const item = outputItem(reply)
    const at = { item_id: item.id, output_index: 0 }
    const begun = { ...response(model, []), status: 'in_progress' }
    const inside: Json[] = []
    if ('text' in reply) {
      const part = { ...at, content_index: 0 }
      const empty = { type: 'output_text', text: '', annotations: [] }
      inside.push({ type: 'response.content_part.added', ...part, part: empty })
      for (const delta of halves(reply.text)) inside.push({ type: 'response.output_text.delta', ...part, delta })
      inside.push({ type: 'response.output_text.done', ...part, text: reply.text })
      inside.push({ type: 'response.content_part.done', ...part, part: { ...empty, text: reply.text } })
    } else {
      const text = JSON.stringify(reply.args)
      inside.push({ type: 'response.function_call_arguments.delta', ...at, delta: text })
      inside.push({ type: 'response.function_call_arguments.done', ...at, arguments: text })
    }
    const opened = 'text' in reply ? { ...item, content: [] } : { ...item, arguments: '' }
    return [
      { type: 'response.created', response: begun },
      { type: 'response.output_item.added', output_index: 0, item: opened },
      ...inside,
      { type: 'response.output_item.done', output_index: 0, item },
      { type: 'response.completed', response: response(model, [item]) },
    ].map((event, sequence_number) => ({ ...event, sequence_number }))
  },
}

/** Numbers of a text that differ from those of another. */
export function embeddings({ input, dimensions, encoding_format, model }: Json): Json {
  const texts = Array.isArray(input) ? input : [input]
  const data = texts.map((text, index) => {
    const numbers = new Float32Array((dimensions as number | undefined) ?? 1536)
    for (const [at, character] of [...String(text)].entries())
      numbers[at % numbers.length]! += character.codePointAt(0)!
    const embedding =
      encoding_format === 'base64' ? Buffer.from(numbers.buffer).toString('base64') : Array.from(numbers)
    return { object: 'embedding', index, embedding }
  })
  return { object: 'list', model, data, usage: { prompt_tokens: 1, total_tokens: 1 } }
}

const chatCall = ({ tool, args }: Exclude<Reply, { text: string }>) => ({
  id: newId('call'),
  type: 'function',
  function: { name: tool, arguments: JSON.stringify(args) },
})

function outputItem(reply: Reply): Json {
  if ('text' in reply) {
    const content = [{ type: 'output_text', text: reply.text, annotations: [] }]
    return { type: 'message', id: newId('msg'), status: 'completed', role: 'assistant', content }
  }
  const ids = { id: newId('fc'), call_id: newId('call'), status: 'completed' }
  return { type: 'function_call', ...ids, name: reply.tool, arguments: JSON.stringify(reply.args) }
}

function response(model: unknown, output: Json[]): Json {
  const details = { input_tokens_details: { cached_tokens: 0 }, output_tokens_details: { reasoning_tokens: 0 } }
  return {
    ...{ id: newId('resp'), object: 'response', created_at: SECONDS, status: 'completed', model, output },
    ...{ error: null, incomplete_details: null, instructions: null, metadata: {}, parallel_tool_calls: true },
    ...{ temperature: 1, top_p: 1, tool_choice: 'auto', tools: [], text: { format: { type: 'text' } } },
    usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15, ...details },
  }
}

const newId = (kind: string): string => `${kind}_${randomUUID().replaceAll('-', '')}`
