/** The API reference as Markdown, from the OpenAPI document that the edge serves. */
import { documentOf } from '../../edge/openapi/document.js'
import { ROUTES } from '../../edge/routes.js'

export interface ReferencePage {
  name: string
  markdown: string
}

interface Schema {
  $ref?: string
  const?: unknown
  enum?: unknown[]
  oneOf?: Schema[]
  anyOf?: Schema[]
  type?: string | string[]
  format?: string
  description?: string
  properties?: { [name: string]: Schema }
  required?: string[]
  items?: Schema
  minimum?: number
  maximum?: number
}
interface Content {
  content?: { [type: string]: { schema: Schema } }
}
interface Operation extends Content {
  summary: string
  tags: string[]
  parameters?: { name: string; in: string; schema: Schema }[]
  requestBody?: Content & { required: boolean }
  responses: { [status: string]: Content & { description: string } }
}
interface Document {
  tags: { name: string }[]
  paths: { [path: string]: { [method: string]: Operation } }
  components: { schemas: Schemas }
}
type Schemas = { readonly [name: string]: Schema }
interface Entry {
  path: string
  method: string
  operation: Operation
}

const SCHEMAS = 'reference-schemas'
const METHODS = new Set(['get', 'post', 'put', 'patch', 'delete'])
const TITLES: { readonly [tag: string]: string } = { system: 'System, MCP and A2A' }

/** `version`: of Weft. The first page lists the operations, one page for each tag describes them, the last has the types. */
export function referencePages(version: string): ReferencePage[] {
  const routes = ROUTES.filter(({ test }) => !test)
  const document = documentOf({ routes, version, base: '/', security: null }) as unknown as Document
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([method]) => METHODS.has(method))
      .map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  )
  const groups = document.tags.map(({ name }) => ({
    title: TITLES[name] ?? name.charAt(0).toUpperCase() + name.slice(1),
    name: `reference-${name.replaceAll(' ', '-')}`,
    operations: operations.filter(({ operation }) => operation.tags.includes(name)),
  }))
  const list = groups.map(
    ({ title, name, operations }) =>
      `## ${title}\n\n| operation | |\n|---|---|\n${operations
        .map(
          ({ method, path, operation }) =>
            `| [\`${method} ${path}\`](${name}.html#${anchor(method, path)}) | ${operation.summary} |`,
        )
        .join('\n')}\n`,
  )
  return [
    { name: 'reference', markdown: `${INTRODUCTION}\n${list.join('\n')}` },
    ...groups.map(({ title, name, operations }) => ({
      name,
      markdown: `# API: ${title.charAt(0).toLowerCase() + title.slice(1)}\n\nEvery operation with its parameters and bodies. [All operations](reference.html).\n\n${operations.map(entry => sectionOf(entry, document.components.schemas)).join('\n')}`,
    })),
    { name: SCHEMAS, markdown: schemasPage(document.components.schemas) },
  ]
}

const INTRODUCTION = `# API reference

The operations of Weft as its server describes them in \`/openapi.json\` (OpenAPI 3.1), which generators of clients read.
\`/docs\` shows the same document with forms to try it. What the operations mean: [HTTP API](api.html). The
[types](${SCHEMAS}.html) of bodies are those that the server validates.
`

const anchor = (method: string, path: string): string =>
  `${method} ${path}`
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .replaceAll(' ', '-')

function sectionOf({ method, path, operation }: Entry, schemas: Schemas): string {
  const { summary, parameters = [], requestBody, responses } = operation
  const lines = [`## \`${method} ${path}\``, '', `${summary}.`, '']
  if (parameters.length > 0) {
    lines.push('| parameter | in | type |', '|---|---|---|')
    for (const { name, in: place, schema } of parameters)
      lines.push(`| \`${name}\` | ${place} | ${typeOf(schema, schemas)} |`)
    lines.push('')
  }
  if (requestBody !== undefined)
    lines.push(`Body${requestBody.required ? '' : ' (may be empty)'}: ${contentOf(requestBody, schemas)}`, '')
  const answers = Object.entries(responses)
    .filter(([status]) => status !== 'default')
    .map(([status, answer]) => `${status}: ${contentOf(answer, schemas) || answer.description.toLowerCase()}`)
  lines.push(`Answer ${answers.join('; ')}`, '')
  return lines.join('\n')
}

/** JSON is named by its type, other bodies by their media types. */
const contentOf = ({ content = {} }: Content, schemas: Schemas): string =>
  Object.entries(content)
    .map(([type, { schema }]) =>
      type === 'application/json' && Object.keys(schema).length > 0 ? typeOf(schema, schemas) : `\`${type}\``,
    )
    .join(', ')

function schemasPage(schemas: Schemas): string {
  const sections = Object.entries(schemas)
    .filter(([, schema]) => hasMembers(schema))
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([name, schema]) => {
      const rows = Object.entries(schema.properties!).map(
        ([member, type]) =>
          `| \`${member}\`${schema.required?.includes(member) ? '' : ' (optional)'} | ${typeOf(type, schemas)} | ${cell(type.description ?? '')} |`,
      )
      const text = schema.description === undefined ? '' : `${schema.description}\n\n`
      return `## ${name}\n\n${text}| member | type | |\n|---|---|---|\n${rows.join('\n')}\n`
    })
  return `# API: types\n\nThe bodies of requests and answers. [All operations](reference.html).\n\n${sections.join('\n')}`
}

const hasMembers = ({ properties = {} }: Schema): boolean => Object.keys(properties).length > 0

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll(/\s*\n\s*/g, ' ')

/** A type in one line, with links to types that have members. */
function typeOf(schema: Schema, schemas: Schemas): string {
  if (schema.$ref !== undefined) {
    const name = schema.$ref.split('/').at(-1)!
    const target = schemas[name]
    if (target !== undefined && !hasMembers(target)) return typeOf(target, schemas)
    return `[${name}](${SCHEMAS}.html#${name.toLowerCase().replaceAll('.', '')})`
  }
  if ('const' in schema) return `\`${JSON.stringify(schema.const)}\``
  if (schema.enum !== undefined) return schema.enum.map(value => `\`${JSON.stringify(value)}\``).join(' or ')
  const choices = schema.oneOf ?? schema.anyOf
  // Null comes last.
  if (choices !== undefined)
    return [...choices.filter(({ type }) => type !== 'null'), ...choices.filter(({ type }) => type === 'null')]
      .map(choice => typeOf(choice, schemas))
      .join(' or ')
  if (schema.type === 'array') return `array of ${schema.items === undefined ? 'any' : typeOf(schema.items, schemas)}`
  if (hasMembers(schema))
    return `{ ${Object.entries(schema.properties!)
      .map(([name, type]) => `\`${name}\`: ${typeOf(type, schemas)}`)
      .join(', ')} }`
  const type = [schema.type ?? 'any'].flat().join(' or ')
  return `${type}${schema.format === undefined ? '' : ` (${schema.format})`}`
}
