/** A value that fits a JSON schema: what a graph gets as its input, and what a fake model gives as arguments. */
export interface Schema {
  type?: string | string[]
  properties?: { [name: string]: Schema }
  required?: string[]
  items?: Schema
  anyOf?: Schema[]
  oneOf?: Schema[]
  allOf?: Schema[]
  enum?: unknown[]
  const?: unknown
  default?: unknown
  $ref?: string
  $defs?: { [name: string]: Schema }
  definitions?: { [name: string]: Schema }
  minItems?: number
  minimum?: number
  format?: string
  title?: string
}

const TEXT = 'one'
/** A schema that contains itself ends here. */
const DEEPEST = 8

/** `page`: the address of a page that exists. */
export function sampleOf(schema: Schema, page = TEXT, name = '', top: Schema = schema, depth = 0): unknown {
  if (depth > DEEPEST) return null
  const inner = (one: Schema, as = name) => sampleOf(one, page, as, top, depth + 1)
  if (schema.$ref !== undefined) {
    const target = schema.$ref.split('/').at(-1)!
    return inner(top.$defs?.[target] ?? top.definitions?.[target] ?? {})
  }
  if (schema.const !== undefined) return schema.const
  if (schema.enum !== undefined) return schema.enum[0]
  if (schema.default !== undefined) return schema.default
  const one = schema.anyOf?.[0] ?? schema.oneOf?.[0] ?? schema.allOf?.[0]
  if (one !== undefined) return inner(one)
  switch (typeof schema.type === 'string' ? schema.type : schema.type?.[0]) {
    case 'string':
      return schema.format === 'uri' || name === 'url' ? page : TEXT
    case 'integer':
    case 'number':
      return schema.minimum ?? 1
    case 'boolean':
      return true
    case 'array':
      return Array.from({ length: schema.minItems ?? 1 }, () => inner(schema.items ?? {}))
    case 'object':
      return Object.fromEntries(
        Object.entries(schema.properties ?? {})
          .filter(([name]) => schema.required === undefined || schema.required.includes(name))
          .map(([name, property]) => [name, inner(property, name)]),
      )
    default:
      return schema.properties === undefined ? null : inner({ ...schema, type: 'object' })
  }
}

const SAY = 'Hello there'

/** Input of a graph for a person's words: as a message where the state has messages, else in each text of the input. */
export function inputOf(schema: Schema, say = SAY): { [name: string]: unknown } {
  if (schema.properties?.messages !== undefined) return { messages: [{ role: 'user', content: say }] }
  const sample = sampleOf({ ...schema, required: undefined }) as { [name: string]: unknown } | null
  const texts = Object.entries(sample ?? {}).map(([name, value]) => [name, value === TEXT ? say : value])
  return Object.fromEntries(texts)
}
