// The prebuilt agent of the library with a model that speaks OpenAI's wire form through fetch: needs no package of a provider.
import { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { AIMessageChunk } from '@langchain/core/messages'
import { ChatGenerationChunk } from '@langchain/core/outputs'
import { tool } from '@langchain/core/tools'
import { interrupt } from '@langchain/langgraph'
import { createReactAgent } from '@langchain/langgraph/prebuilt'
import { z } from 'zod'

const ROLES = { human: 'user', ai: 'assistant', system: 'system', tool: 'tool' }

class FetchModel extends BaseChatModel {
  tools = []
  _llmType() {
    return 'fetch'
  }
  bindTools(tools) {
    const bound = new FetchModel({})
    bound.tools = tools.map(({ name }) => ({ type: 'function', function: { name, parameters: {} } }))
    return bound
  }
  async _generate(messages, options, manager) {
    let message
    for await (const chunk of this._streamResponseChunks(messages, options, manager))
      message = message === undefined ? chunk.message : message.concat(chunk.message)
    return { generations: [{ text: message.text, message }] }
  }
  async *_streamResponseChunks(messages, _options, manager) {
    const sent = messages.map(message => ({ role: ROLES[message.getType()], content: message.content }))
    const response = await fetch(`${process.env.OPENAI_BASE_URL}/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({ model: 'fake', messages: sent, tools: this.tools, stream: true }),
    })
    for (const line of (await response.text()).split('\n')) {
      if (!line.startsWith('data: {')) continue
      const { content = '', tool_calls = [] } = JSON.parse(line.slice(6)).choices[0]?.delta ?? {}
      const calls = tool_calls.map(({ index, id, function: { name, arguments: args } }) => ({ index, id, name, args }))
      const message = new AIMessageChunk({ content: content ?? '', tool_call_chunks: calls })
      await manager?.handleLLMNewToken(content ?? '')
      yield new ChatGenerationChunk({ text: content ?? '', message })
    }
  }
}

const sendMail = tool(({ to }) => `${interrupt({ question: `Send to ${to}?` })}: ${to}`, {
  name: 'send_mail',
  description: 'Sends a mail.',
  schema: z.object({ to: z.string() }),
})

export const graph = createReactAgent({ llm: new FetchModel({}), tools: [sendMail] })
