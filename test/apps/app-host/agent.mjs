import { MessagesAnnotation, StateGraph } from '@langchain/langgraph'

export const graph = new StateGraph(MessagesAnnotation)
  .addNode('reply', () => ({ messages: [] }))
  .addEdge('__start__', 'reply')
  .compile()
