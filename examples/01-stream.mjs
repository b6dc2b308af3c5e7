// Streams the tokens of one answer. Start the server first: ./scripts/start
import { Client } from '@langchain/langgraph-sdk'

const client = new Client({ apiUrl: process.env.WEFT_URL ?? 'http://127.0.0.1:2024' })
const input = { messages: [{ role: 'user', content: process.argv[2] ?? 'hello, who are you?' }] }

let text = ''
let tokens = 0
for await (const { event, data } of client.runs.stream(null, 'agent', { input, streamMode: 'messages-tuple' })) {
  if (event === 'error') throw new Error(`${data.error}: ${data.message}`)
  if (event !== 'messages') continue
  const [message] = data
  if (message.type !== 'ai') continue
  process.stdout.write(message.content)
  text += message.content
  tokens++
}
console.log()
if (tokens < 2) throw new Error(`expected a stream of tokens, got ${tokens}: ${text}`)
console.log(`ok: ${tokens} tokens`)
