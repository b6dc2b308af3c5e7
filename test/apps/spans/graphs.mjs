/** Graphs whose parts are recorded: a model, a tool and a subgraph; a failure, an interrupt, a crash, very many parts. */
import { existsSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { AIMessageChunk } from '@langchain/core/messages'
import { ChatGenerationChunk } from '@langchain/core/outputs'
import { tool } from '@langchain/core/tools'
import { Annotation, interrupt, START, StateGraph } from '@langchain/langgraph'
import { z } from 'zod'

const State = Annotation.Root({ text: Annotation(), folder: Annotation(), steps: Annotation() })

/** Answers "Hello world" in two tokens, and reports what a provider reports. */
class Parrot extends BaseChatModel {
  _llmType() {
    return 'parrot'
  }
  getLsParams(options) {
    return { ...super.getLsParams(options), ls_provider: 'forest', ls_model_name: 'parrot-1' }
  }
  async _generate(_messages, _options, manager) {
    const parts = []
    for await (const part of this._streamResponseChunks(_messages, _options, manager)) parts.push(part)
    return { generations: [parts.reduce((all, part) => all.concat(part))] }
  }
  async *_streamResponseChunks(_messages, _options, manager) {
    for (const text of ['Hello ', 'world']) {
      yield chunkOf(text)
      await manager?.handleLLMNewToken(text)
    }
    yield chunkOf('', { usage_metadata: { input_tokens: 7, output_tokens: 2, total_tokens: 9 } })
  }
}
const chunkOf = (text, more = {}) =>
  new ChatGenerationChunk({ text, message: new AIMessageChunk({ content: text, ...more }) })

const lookUp = tool(async ({ word }) => `${word}?`, {
  name: 'look_up',
  description: 'Looks a word up',
  schema: z.object({ word: z.string() }),
})
const broken = tool(
  () => {
    throw new Error('no such word\nand more that nobody needs')
  },
  { name: 'broken', description: 'Fails', schema: z.object({ word: z.string() }) },
)

const inner = new StateGraph(State)
  .addNode('leaf', async () => ({ text: 'leaf' }))
  .addEdge(START, 'leaf')
  .compile()

export const agent = new StateGraph(State)
  .addNode('think', async () => ({ text: (await new Parrot({}).invoke('Hello')).content }))
  .addNode('act', async () => {
    await broken.invoke({ word: 'a' }).catch(() => {})
    return { text: await lookUp.invoke({ word: 'b' }) }
  })
  .addNode('inner', inner)
  .addEdge(START, 'think')
  .addEdge('think', 'act')
  .addEdge('act', 'inner')
  .compile()

export const fail = new StateGraph(State)
  .addNode('bad', () => {
    throw new Error('too bad\nsecond line')
  })
  .addEdge(START, 'bad')
  .compile()

export const ask = new StateGraph(State)
  .addNode('before', () => ({}))
  .addNode('question', () => ({ text: interrupt('Which?') }))
  .addEdge(START, 'before')
  .addEdge('before', 'question')
  .compile()

/** The first attempt waits for the file `go` and kills its host. */
export const crash = new StateGraph(State)
  .addNode('first', () => ({}))
  .addNode('second', async ({ folder }) => {
    if (existsSync(`${folder}/died`)) return { text: 'survived' }
    while (!existsSync(`${folder}/go`)) await sleep(20)
    writeFileSync(`${folder}/died`, '')
    process.kill(process.pid, 'SIGKILL')
    await sleep(60_000)
  })
  .addEdge(START, 'first')
  .addEdge('first', 'second')
  .compile()

export const many = new StateGraph(State)
  .addNode('loop', async ({ steps }) => {
    for (let n = 0; n < steps; n++) await lookUp.invoke({ word: `${n}` })
    return {}
  })
  .addEdge(START, 'loop')
  .compile()
