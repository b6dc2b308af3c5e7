/**
 * The chat model of an example: that of a provider when its key is in the environment, else a script. Each example in
 * TypeScript has this file, so that its folder can be copied alone; what the script says is in script.ts.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { CallbackManagerForLLMRun } from '@langchain/core/callbacks/manager'
import { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { AIMessageChunk, type BaseMessage } from '@langchain/core/messages'
import { ChatGenerationChunk, type ChatResult } from '@langchain/core/outputs'
import type { Runnable } from '@langchain/core/runnables'
import type { StructuredToolInterface } from '@langchain/core/tools'

/** A text, or the call of a tool. */
export type Reply = string | { tool: string; args: { [name: string]: unknown } }
export type Script = (messages: BaseMessage[]) => Reply

const PROVIDERS = [
  { key: 'OPENAI_API_KEY', provider: 'openai', model: 'openai:gpt-5-mini' },
  { key: 'ANTHROPIC_API_KEY', provider: 'anthropic', model: null },
]
const LANGCHAIN: string = 'langchain'
/** The pause before each token of the script. */
const TOKEN_MS = 15

/** `MODEL` names the model, as `openai:gpt-5`; OpenAI has a default. */
export async function chatModel(
  script: Script,
  tools: StructuredToolInterface[] = [],
): Promise<Runnable<BaseMessage[], AIMessageChunk>> {
  const found = PROVIDERS.find(({ key }) => process.env[key])
  if (found === undefined) return new ScriptedModel(script)
  const { key, provider } = found
  const name = process.env.MODEL || found.model
  if (name === null) throw new Error(`${key} is set: MODEL must name a model of it, as ${provider}:NAME`)
  const library = `@langchain/${provider}`
  const [{ initChatModel }] = await Promise.all([import(LANGCHAIN), import(library)]).catch(cause => {
    throw new Error(`${key} is set, and its model needs two packages: npm install langchain ${library}`, { cause })
  })
  const model = await initChatModel(name)
  return tools.length > 0 ? model.bindTools(tools) : model
}

/** Streams the reply of the script word by word, as a model of a provider would. */
class ScriptedModel extends BaseChatModel {
  readonly script: Script

  constructor(script: Script) {
    super({})
    this.script = script
  }

  _llmType() {
    return 'scripted'
  }

  /** The script knows the tools. */
  override bindTools(): this {
    return this
  }

  override async *_streamResponseChunks(
    messages: BaseMessage[],
    { signal }: this['ParsedCallOptions'],
    runManager?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    const reply = this.script(messages)
    if (typeof reply === 'object') {
      const call = { name: reply.tool, args: JSON.stringify(reply.args), id: `call_${messages.length}`, index: 0 }
      const message = new AIMessageChunk({ content: '', tool_call_chunks: [{ ...call, type: 'tool_call_chunk' }] })
      yield new ChatGenerationChunk({ text: '', message })
      return
    }
    for (const token of reply.match(/\s*\S+/g) ?? []) {
      await sleep(TOKEN_MS, undefined, { signal })
      const chunk = new ChatGenerationChunk({ text: token, message: new AIMessageChunk({ content: token }) })
      yield chunk
      await runManager?.handleLLMNewToken(token, undefined, undefined, undefined, undefined, { chunk })
    }
  }

  async _generate(
    messages: BaseMessage[],
    options: this['ParsedCallOptions'],
    runManager?: CallbackManagerForLLMRun,
  ): Promise<ChatResult> {
    const chunks: ChatGenerationChunk[] = []
    for await (const chunk of this._streamResponseChunks(messages, options, runManager)) chunks.push(chunk)
    return { generations: [chunks.reduce((all, chunk) => all.concat(chunk))] }
  }
}
