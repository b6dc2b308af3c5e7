/** A clerk with a context, who asks as the human-in-the-loop middleware does, and repeats the decisions. */
import { Annotation, interrupt, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { z } from 'zod'

const context = z.object({
  tone: z.enum(['kind', 'short']).optional(),
  copies: z.number().optional(),
})

export const clerk = new StateGraph(MessagesAnnotation, context)
  .addNode('work', ({ messages }, { context }) => {
    if (String(messages.at(-1).content) !== 'send')
      return { messages: [{ role: 'ai', content: `tone ${context?.tone}, copies ${context?.copies}` }] }
    const { decisions } = interrupt({
      action_requests: [{ name: 'send_mail', args: { to: 'ada' }, description: 'Sends a mail.' }],
      review_configs: [{ action_name: 'send_mail', allowed_decisions: ['approve', 'edit', 'reject'] }],
    })
    return { messages: [{ role: 'ai', content: JSON.stringify(decisions) }] }
  })
  .addEdge(START, 'work')
  .compile()

/** Asks what its input says, twice when it has two questions, and keeps the answers. */
export const asker = new StateGraph(Annotation.Root({ ask: Annotation(), answers: Annotation() }))
  .addNode('asks', ({ ask }) => ({ answers: ask.map(question => interrupt(question)) }))
  .addEdge(START, 'asks')
  .compile()
