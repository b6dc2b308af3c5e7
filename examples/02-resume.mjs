// Drops the connection in the middle of a run, joins again where it was, and checks that nothing is missing or doubled.
import assert from 'node:assert/strict'
import { Client } from '@langchain/langgraph-sdk'

const client = new Client({ apiUrl: process.env.WEFT_URL ?? 'http://127.0.0.1:2024' })
const { thread_id } = await client.threads.create()
const input = { messages: [{ role: 'user', content: 'tell me something long' }] }

const before = []
let run_id
const connection = new AbortController()
try {
  const stream = client.runs.stream(thread_id, 'agent', {
    input,
    streamMode: ['messages-tuple', 'updates'],
    // The run outlives its reader, and its events are kept.
    streamResumable: true,
    onDisconnect: 'continue',
    signal: connection.signal,
    onRunCreated: run => {
      run_id = run.run_id
    },
  })
  for await (const part of stream) {
    before.push(part)
    if (before.length === 6) connection.abort()
    if (before.length >= 6) break
  }
} catch (error) {
  if (!connection.signal.aborted) throw error
}
const lastEventId = before.at(-1).id
console.log(`dropped after event ${lastEventId} of run ${run_id}`)
await new Promise(resolve => setTimeout(resolve, 300))

const after = []
for await (const part of client.runs.joinStream(thread_id, run_id, { lastEventId })) after.push(part)
console.log(`joined again: ${after.length} more events, ${after[0].id} to ${after.at(-1).id}`)

const all = [...before, ...after]
assert.deepEqual(
  all.map(({ id }) => Number(id)),
  all.map((_, i) => Number(all[0].id) + i),
  'ids follow one another: nothing missing, nothing doubled',
)
const text = all
  .filter(({ event, data }) => event === 'messages' && data[0].type === 'ai')
  .map(({ data }) => data[0].content)
  .join('')
const { values } = await client.threads.getState(thread_id)
assert.equal(text, values.messages.at(-1).content, 'the tokens of both connections make up the whole answer')
console.log(`ok: ${all.length} events, each exactly once`)
