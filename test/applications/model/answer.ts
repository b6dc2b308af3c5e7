/**
 * The answers of the fake model. The last message decides: `call <tool> {"argument": 1}` asks for that tool, when the request
 * offers it; anything else is answered in words. A request that leaves no choice gets values that fit its schema.
 */
import { type Schema, sampleOf } from '../sample.js'

export interface Tool {
  name: string
  schema: Schema
}

export interface Question {
  last: { role: string; text: string }
  tools: readonly Tool[]
  /** The tool that must be called; true: any of them. */
  forced?: string | true | undefined
  /** The answer is JSON that fits it. */
  format?: Schema | undefined
}

export type Reply = { text: string } | { tool: string; args: unknown }

const CALL = /^\s*call (\w+) ?(\{.*\})?\s*$/m
const SHOWN = 80

/** `page`: what is given where an address is expected. */
export function replyTo({ last, tools, forced, format }: Question, page?: string): Reply {
  const wanted = last.role === 'user' ? CALL.exec(last.text) : null
  const named = (name: string | undefined) => tools.find(tool => tool.name === name)
  // An agent that must call tools answers by its last one.
  const any = last.role === 'tool' ? tools.at(-1) : tools[0]
  const tool =
    typeof forced === 'string' ? named(forced) : (named(wanted?.[1]) ?? (forced === undefined ? undefined : any))
  const given = tool !== undefined && tool.name === wanted?.[1] ? wanted[2] : undefined
  if (tool !== undefined)
    return { tool: tool.name, args: given ? JSON.parse(given) : (sampleOf(tool.schema, page) ?? {}) }
  if (format !== undefined) return { text: JSON.stringify(sampleOf(format, page)) }
  return { text: `This answers: ${last.text.slice(0, SHOWN)}` }
}

/** Text of a message's content in each wire form: a string, or a list of parts. */
export function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content.map((part: { text?: unknown }) => (typeof part.text === 'string' ? part.text : '')).join('')
}

/** Two parts, so that a stream has more than one token. */
export function halves(text: string): [string, string] {
  const middle = Math.ceil(text.length / 2)
  return [text.slice(0, middle), text.slice(middle)]
}
