/** A graph in TypeScript on the same server. It reads a thread that the writer may have left. */
import type { BaseMessage } from '@langchain/core/messages'
import { Annotation, END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'

const Review = Annotation.Root({
  ...MessagesAnnotation.spec,
  approved: Annotation<boolean>,
  review: Annotation<string>,
})

const textOf = (message: BaseMessage | undefined): string => String(message?.content ?? '')

export const reviewer = new StateGraph(Review)
  .addNode('read', ({ messages, approved }) => {
    const words = textOf(messages.at(-1)).split(/\s+/).length
    return { review: `${words} words, ${approved ? 'approved' : 'not approved'}` }
  })
  .addEdge(START, 'read')
  .addEdge('read', END)
  .compile()
