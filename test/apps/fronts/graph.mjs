/** An agent as front ends expect one: it streams words, calls tools, asks before it books, and fails on demand. */

import { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { AIMessageChunk } from '@langchain/core/messages'
import { ChatGenerationChunk } from '@langchain/core/outputs'
import { tool } from '@langchain/core/tools'
import { END, interrupt, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { ToolNode, toolsCondition } from '@langchain/langgraph/prebuilt'
import { z } from 'zod'

const add = tool(({ a, b }) => `${a + b}`, {
  name: 'add',
  description: 'Adds two numbers.',
  schema: z.object({ a: z.number(), b: z.number() }),
})

/** The form of an interrupt of the middleware `humanInTheLoopMiddleware`, which front ends show as a request for approval. */
const book = tool(
  ({ what }) => {
    const { decisions } = interrupt({
      actionRequests: [{ name: 'book', args: { what } }],
      reviewConfigs: [{ actionName: 'book', allowedDecisions: ['approve', 'reject'] }],
    })
    return decisions[0].type === 'approve' ? `booked ${what}` : `did not book ${what}`
  },
  { name: 'book', description: 'Books something.', schema: z.object({ what: z.string() }) },
)

/** The answer of the model to the last message: words, or the arguments of a tool in two parts. */
function answer(last) {
  const text = String(last.content)
  const [, a, b] = /^add (\d+) (\d+)/.exec(text) ?? []
  const [, what] = /^book (.+)/.exec(text) ?? []
  if (last.type === 'human' && a) return { name: 'add', args: [`{"a":${a},`, `"b":${b}}`] }
  if (last.type === 'human' && what) return { name: 'book', args: ['{"what":', `${JSON.stringify(what)}}`] }
  if (text.startsWith('fail ')) throw new Error(text.slice('fail '.length))
  return { words: [last.type === 'tool' ? 'Done:' : 'You said:', ...text.split(' ')] }
}

class Scripted extends BaseChatModel {
  _llmType() {
    return 'scripted'
  }

  async *_streamResponseChunks(messages, _options, manager) {
    const { words = [], name, args = [] } = answer(messages.at(-1))
    const call = { id: `call_${messages.length}`, index: 0, type: 'tool_call_chunk' }
    const messagesOf = [
      ...words.map((word, i) => ({ content: i === 0 ? word : ` ${word}` })),
      ...(name ? [{ content: '', tool_call_chunks: [{ ...call, name, args: '' }] }] : []),
      ...args.map(part => ({ content: '', tool_call_chunks: [{ index: 0, type: 'tool_call_chunk', args: part }] })),
    ]
    for (const fields of messagesOf) {
      const chunk = new ChatGenerationChunk({ text: fields.content, message: new AIMessageChunk(fields) })
      yield chunk
      await manager?.handleLLMNewToken(fields.content, undefined, undefined, undefined, undefined, { chunk })
    }
  }

  async _generate(messages, options, manager) {
    let all
    for await (const chunk of this._streamResponseChunks(messages, options, manager)) all = all?.concat(chunk) ?? chunk
    return { generations: [all] }
  }
}

const model = new Scripted({})

export const agent = new StateGraph(MessagesAnnotation)
  .addNode('model', async ({ messages }, config) => ({ messages: [await model.invoke(messages, config)] }))
  .addNode('tools', new ToolNode([add, book]))
  .addEdge(START, 'model')
  .addConditionalEdges('model', toolsCondition, ['tools', END])
  .addEdge('tools', 'model')
  .compile()
