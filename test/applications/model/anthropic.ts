/** The wire form of Anthropic: messages. */
import { randomUUID } from 'node:crypto'
import type { Schema } from '../sample.js'
import { halves, textOf } from './answer.js'
import type { Wire } from './openai.js'

type Part = { type: string }
type Format = { schema?: Schema }

export const messages: Wire = {
  question({ messages, tools, tool_choice, output_config, output_format }) {
    const { role, content } = (messages as { role: string; content: string | Part[] }[]).at(-1)!
    const result = Array.isArray(content) && content.some(({ type }) => type === 'tool_result')
    const offered = (tools ?? []) as { name: string; input_schema?: Schema }[]
    const config = output_config as { format?: Format } | undefined
    const choice = tool_choice as { type: string; name?: string } | undefined
    return {
      last: { role: result ? 'tool' : role, text: textOf(content) },
      tools: offered.flatMap(({ name, input_schema }) => (input_schema ? [{ name, schema: input_schema }] : [])),
      format: (config?.format ?? (output_format as Format | undefined))?.schema,
      forced: choice?.type === 'any' ? true : choice?.name,
    }
  },
  whole({ model }, reply) {
    const content = 'text' in reply ? { type: 'text', text: reply.text } : { ...toolUse(reply.tool), input: reply.args }
    return { ...message(model), content: [content], stop_reason: 'text' in reply ? 'end_turn' : 'tool_use' }
  },
  parts({ model }, reply) {
    const block = 'text' in reply ? { type: 'text', text: '' } : toolUse(reply.tool)
    const deltas =
      'text' in reply
        ? halves(reply.text).map(text => ({ type: 'text_delta', text }))
        : halves(JSON.stringify(reply.args)).map(partial_json => ({ type: 'input_json_delta', partial_json }))
    const end = { stop_reason: 'text' in reply ? 'end_turn' : 'tool_use', stop_sequence: null }
    return [
      { type: 'message_start', message: message(model) },
      { type: 'content_block_start', index: 0, content_block: block },
      ...deltas.map(delta => ({ type: 'content_block_delta', index: 0, delta })),
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: end, usage: { output_tokens: 5 } },
      { type: 'message_stop' },
    ]
  },
}

const message = (model: unknown) => ({
  ...{ id: `msg_${randomUUID()}`, type: 'message', role: 'assistant', model, content: [] as unknown[] },
  ...{ stop_reason: null as string | null, stop_sequence: null, usage: { input_tokens: 10, output_tokens: 5 } },
})

const toolUse = (name: string) => ({ type: 'tool_use', id: `toolu_${randomUUID()}`, name, input: {} as unknown })
