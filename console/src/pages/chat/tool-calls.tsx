import type { Message } from '@langchain/langgraph-sdk'
import { Icon } from '../../ui/icon'
import { Json } from '../../ui/json'

interface ToolCallsProps {
  calls: { id?: string; name: string; args: unknown }[]
  /** By the id of the call. */
  results: ReadonlyMap<string, Message>
}

/** The calls of a message, folded: arguments and, when it is there, the result. */
export const ToolCalls = ({ calls, results }: ToolCallsProps) =>
  calls.map(({ id = '', name, args }, i) => {
    const result = results.get(id)
    return (
      <details key={id || i} className="tool-call">
        <summary>
          <Icon name="tool" />
          <strong>{name}</strong>
          <span className="tool-args">{shortOf(args)}</span>
          <span className="muted">{result === undefined ? 'no result yet' : 'done'}</span>
        </summary>
        <h3>Arguments</h3>
        <Json value={args} />
        {result !== undefined && (
          <>
            <h3>Result</h3>
            <Json value={parsed(result.content)} />
          </>
        )}
      </details>
    )
  })

const shortOf = (args: unknown): string =>
  Object.values((args ?? {}) as object)
    .map(value => (typeof value === 'string' ? value : JSON.stringify(value)))
    .join(', ')

function parsed(content: unknown): unknown {
  if (typeof content !== 'string' || !/^\s*[[{]/.test(content)) return content
  try {
    return JSON.parse(content)
  } catch {
    return content
  }
}
