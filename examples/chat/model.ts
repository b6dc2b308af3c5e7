/** A chat model that is a script: the same question always gets the same answer, token by token. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { CallbackManagerForLLMRun } from '@langchain/core/callbacks/manager'
import { BaseChatModel, type BaseChatModelParams } from '@langchain/core/language_models/chat_models'
import { AIMessageChunk, type BaseMessage } from '@langchain/core/messages'
import { ChatGenerationChunk, type ChatResult } from '@langchain/core/outputs'

type Reply = { text: string } | { tool: string; args: { [name: string]: string } }

const STORY =
  'A weaver had a loom that never lost a thread. Every evening she sat down, and whatever had been torn during the day she ' +
  'joined again, exactly where it had ended: not one knot too early and not one too late. One night the lamp went out in ' +
  'the middle of a row. Her neighbours said that the cloth was ruined. She lit the lamp, asked the cloth for the number of ' +
  'its last thread, and went on with the next one. Nobody has ever found the place where the light had gone.'

/** Looks at the last message only. */
function reply(messages: BaseMessage[]): Reply {
  const last = messages.at(-1)
  const text = last?.text.trim() ?? ''
  if (last?.name === 'book' || last?.name === 'send') return { text: `The answer was ${text}.` }
  if (last?.type === 'tool') return { text: `Here is what I found. ${text}` }
  const city = /weather (?:in|for) ([\p{L} ]+)/iu.exec(text)?.[1]
  if (city) return { tool: 'weather', args: { city: city.trim() } }
  const sum = /calculate ([\d\s+\-*/().]+)/i.exec(text)?.[1]
  if (sum) return { tool: 'calculate', args: { expression: sum.trim() } }
  const action = /\b(book|send) (.+)/i.exec(text)
  if (action) return { tool: action[1]!.toLowerCase(), args: { what: action[2]!.replace(/[.?!]+$/, '') } }
  const topic = /\bresearch (.+)/i.exec(text)?.[1]
  if (topic) return { tool: 'research', args: { topic: topic.replace(/[.?!]+$/, '') } }
  if (/\bstory\b/i.test(text)) return { text: STORY }
  return {
    text: `You said: "${text}". I am a scripted model, so I can only tell the weather, calculate, research, and book or send things when you approve.`,
  }
}

export class ScriptedModel extends BaseChatModel {
  delay_ms: number

  constructor({ delay_ms, ...fields }: BaseChatModelParams & { delay_ms: number }) {
    super(fields)
    this.delay_ms = delay_ms
  }

  _llmType() {
    return 'scripted'
  }

  async _generate(
    messages: BaseMessage[],
    options: this['ParsedCallOptions'],
    runManager?: CallbackManagerForLLMRun,
  ): Promise<ChatResult> {
    let all: ChatGenerationChunk | undefined
    for await (const chunk of this._streamResponseChunks(messages, options, runManager)) {
      all = all === undefined ? chunk : all.concat(chunk)
    }
    return { generations: all === undefined ? [] : [all] }
  }

  override async *_streamResponseChunks(
    messages: BaseMessage[],
    options: this['ParsedCallOptions'],
    runManager?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    const answer = reply(messages)
    if ('tool' in answer) {
      const { tool: name, args } = answer
      const call = { name, args: JSON.stringify(args), id: `call_${messages.length}`, index: 0 }
      const message = new AIMessageChunk({
        content: '',
        tool_call_chunks: [{ ...call, type: 'tool_call_chunk' }],
      })
      yield new ChatGenerationChunk({ text: '', message })
      return
    }
    for (const token of answer.text.match(/\s*\S+/g) ?? []) {
      if (this.delay_ms > 0) await sleep(this.delay_ms, undefined, { signal: options.signal })
      const chunk = new ChatGenerationChunk({ text: token, message: new AIMessageChunk({ content: token }) })
      yield chunk
      await runManager?.handleLLMNewToken(token, undefined, undefined, undefined, undefined, { chunk })
    }
  }
}
