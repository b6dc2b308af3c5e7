/** The answers of the model when there is no key: "write to ada: hello" finds an address, sends, and reports. */
import type { BaseMessage } from '@langchain/core/messages'
import type { Reply } from './model.js'

export function script(messages: BaseMessage[]): Reply {
  const last = messages.at(-1)
  const asked = messages.findLast(({ type }) => type === 'human')?.text ?? ''
  const [, name, text] = /^write to (\w+): (.+)$/is.exec(asked) ?? []
  if (name === undefined || text === undefined) return 'Say for example "write to ada: hello", and I write an e-mail.'
  if (last?.type === 'human') return { tool: 'find_address', args: { name } }
  if (last?.name !== 'find_address') return `The e-mail: ${last?.text}`
  return last.text.includes('@') ? { tool: 'send_email', args: { to: last.text, text } } : `Sorry, ${last.text}.`
}
