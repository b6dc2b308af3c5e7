;/ What the model says when there is no key: "trains to Turin", "book Turin 08:15". */

import type { BaseMessage } from '@langchain/core/messages'
import type { Reply } from './model.js'

const HELP =
  'I am a scripted travel guide. Ask me for trains to a city, or tell me to book a city and a time, as in ' +
  '"book Turin 08:15". My words come one by one, you can stop me, edit what you have said, and load the page again ' +
  'while I am talking: nothing is lost.'

export function script(messages: BaseMessage[]): Reply {
  const last = messages.at(-1)
  const said = last?.text ?? ''
  if (last?.name === 'search_trains') return `These are the trains to ${said}. Say "book" with the time that suits you.`
  if (last?.name === 'book_train')
    return said.startsWith('booked') ? `Done: ${said}. Have a good trip!` : 'As you like.'
  const [, city] = /trains? to (\p{L}+)/iu.exec(said) ?? []
  if (city !== undefined) return { tool: 'search_trains', args: { to: city } }
  const [, to, at] = /book (\p{L}+) (?:at )?(\d\d:\d\d)/iu.exec(said) ?? []
  if (to !== undefined && at !== undefined) return { tool: 'book_train', args: { to, at } }
  return HELP
}
