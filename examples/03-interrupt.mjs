// Runs into an interrupt, shows what the agent asks, and goes on with an answer.
import assert from 'node:assert/strict'
import { Client } from '@langchain/langgraph-sdk'

const client = new Client({ apiUrl: process.env.WEFT_URL ?? 'http://127.0.0.1:2024' })
const { thread_id } = await client.threads.create()
const input = { messages: [{ role: 'user', content: 'please book a table for two' }] }

const stopped = await client.runs.wait(thread_id, 'agent', { input })
const [interrupt] = stopped.__interrupt__ ?? []
assert.ok(interrupt, 'the run stops at an interrupt')
console.log(`the agent asks: ${interrupt.value.question}`)
assert.equal((await client.threads.get(thread_id)).status, 'interrupted')

const done = await client.runs.wait(thread_id, 'agent', { command: { resume: { approved: true } } })
assert.equal(done.__interrupt__, undefined)
console.log(`the agent says: ${done.messages.at(-1).content}`)
assert.match(done.messages.at(-1).content, /done: book a table for two/)
assert.equal((await client.threads.get(thread_id)).status, 'idle')
console.log('ok: stopped, answered, finished')
