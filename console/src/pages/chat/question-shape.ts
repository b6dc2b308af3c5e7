/** The answers that an interrupt takes, read from its value. */
import type { Schema } from '../../ui/schema-form'

type Values = { [name: string]: unknown }

const DECISIONS = ['approve', 'edit', 'reject', 'respond'] as const
export type DecisionType = (typeof DECISIONS)[number]

/** As the human-in-the-loop middleware of LangChain asks. */
export interface ActionRequest {
  name: string
  args: Values
  description?: string
  allowed: readonly DecisionType[]
  /** The member of a decision with the edited action: the middleware in JavaScript reads another one than that in Python. */
  edited: 'edited_action' | 'editedAction'
}

export interface Decision {
  type: DecisionType
  message?: string
  edited_action?: { name: string; args: unknown }
  editedAction?: { name: string; args: unknown }
}

const asValues = (value: unknown): Values =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Values) : {}
const asList = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])

/** Null: it is no question of the middleware. */
export function requestsOf(value: unknown): ActionRequest[] | null {
  const { action_requests, actionRequests, review_configs, reviewConfigs } = asValues(value)
  const requests = asList(action_requests ?? actionRequests).map(asValues)
  if (requests.length === 0) return null
  const configs = asList(review_configs ?? reviewConfigs).map(asValues)
  return requests.map(({ name, args, description }) => {
    const config = configs.find(one => (one.action_name ?? one.actionName) === name)
    const allowed = asList(config?.allowed_decisions ?? config?.allowedDecisions)
    const known = DECISIONS.filter(one => allowed.includes(one))
    return {
      name: String(name),
      args: asValues(args),
      ...(typeof description === 'string' ? { description } : {}),
      allowed: known.length > 0 ? known : ['approve', 'edit', 'reject'],
      edited: action_requests === undefined ? 'editedAction' : 'edited_action',
    }
  })
}

/** The sentence of a question; null when it has none. */
export function textOf(value: unknown): string | null {
  if (typeof value === 'string') return value
  const { question, message, description, prompt } = asValues(value)
  const text = question ?? message ?? description ?? prompt
  return typeof text === 'string' ? text : null
}

/** Texts of which one is the answer. */
export function choicesOf(value: unknown): string[] | null {
  const { choices, options } = asValues(value)
  const list = asList(choices ?? options)
  return list.length > 0 && list.every(one => typeof one === 'string') ? (list as string[]) : null
}

/** The schema of an answer that is an object. */
export function schemaOf(value: unknown): Schema | null {
  const { schema, answer_schema } = asValues(value)
  const found = asValues(answer_schema ?? schema) as Schema
  return Object.keys(found.properties ?? {}).length > 0 ? found : null
}

/** Whether its sentence says everything. */
export const isText = (value: unknown): boolean =>
  typeof value === 'string' || (textOf(value) !== null && Object.keys(asValues(value)).length === 1)
