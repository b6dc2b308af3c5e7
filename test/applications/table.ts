/** Applications of published packages: the graph of each is a file of `graphs/`, made as the package's documentation says. */
export type Language = 'javascript' | 'python'

export interface Application {
  name: string
  language: Language
  /** Its file in `graphs/<language>`. */
  file: string
  /** Messages that make the model call tools; each in a run of its own. */
  calls?: readonly string[]
  /** The message that makes the graph interrupt itself, and the answer. */
  asks?: { say: string; resume: unknown }
  /** Needs only what the repository has installed. */
  offline?: true
}

const APPROVE = { decisions: [{ type: 'approve' }] }
const MAIL = { say: 'call send_mail {"to":"ada"}', resume: APPROVE }
const FILE = { say: 'call write_file {"file_path":"/a.txt","content":"text"}', resume: APPROVE }
const TASK = 'call task {"description":"look at this","subagent_type":"critic"}'
const HANDLED = ['call fails {"why":"it must"}', 'call weather {"city":"Oslo"}']
const ADD = 'call add {"a":1,"b":2}'
const PLAN = 'call write_todos {"todos":[{"content":"one","status":"pending"}]}'
const REMEMBER = 'call manage_memory {"content":"likes tea","action":"create"}'

const of = (language: Language, end: string, rows: readonly Omit<Application, 'language' | 'file'>[]): Application[] =>
  rows.map(row => ({
    ...row,
    language,
    file: `${language === 'python' ? row.name.replaceAll('-', '_') : row.name}${end}`,
  }))

export const APPLICATIONS: readonly Application[] = [
  ...of('javascript', '.mjs', [
    { name: 'react-agent', asks: { say: MAIL.say, resume: 'yes' }, offline: true },
    { name: 'create-agent', asks: MAIL },
    { name: 'create-agent-responses' },
    { name: 'create-agent-middleware', asks: MAIL, calls: [PLAN] },
    { name: 'create-agent-middleware-more', calls: HANDLED },
    { name: 'deepagents', asks: FILE, calls: [TASK, 'call ls {"path":"/"}'] },
    { name: 'supervisor', calls: ['call transfer_to_math_expert', 'call transfer_to_writer'] },
    { name: 'swarm', calls: [ADD, 'call transfer_to_bob'] },
    { name: 'mcp-adapters', calls: [ADD] },
  ]),
  ...of('python', '.py', [
    { name: 'create-agent', asks: MAIL },
    { name: 'create-agent-responses' },
    { name: 'create-agent-middleware', asks: MAIL, calls: ['call shell {"command":"echo one"}'] },
    { name: 'create-agent-middleware-more', calls: HANDLED },
    { name: 'deepagents-research', asks: FILE, calls: [TASK, 'call ls {"path":"/"}'] },
    { name: 'supervisor', calls: ['call transfer_to_math_expert', 'call transfer_to_writer'] },
    { name: 'swarm', calls: [ADD, 'call transfer_to_bob'] },
    { name: 'bigtool', calls: ['call find_tools {"query":"add"}'] },
    { name: 'langmem-agent', calls: [REMEMBER, 'call search_memory {"query":"tea"}'] },
    { name: 'mcp-adapters', calls: [ADD] },
    { name: 'open-deep-research-app' },
  ]),
]

/** The packages that npm installs for all in JavaScript; `graphs/python/requirements.txt` is the list for Python. */
export const NPM_PACKAGES: { readonly [name: string]: string } = {
  '@langchain/anthropic': '1.5.11',
  '@langchain/core': '1.4.0',
  '@langchain/langgraph': '1.7.3',
  // `--official` starts this server, which reads types with TypeScript.
  '@langchain/langgraph-cli': '2.0.0',
  '@langchain/langgraph-supervisor': '1.1.3',
  '@langchain/langgraph-swarm': '1.0.4',
  '@langchain/mcp-adapters': '1.1.4',
  '@langchain/openai': '1.6.0',
  '@modelcontextprotocol/sdk': '1.32.2',
  deepagents: '1.14.1',
  langchain: '1.5.14',
  typescript: '5.9.3',
  zod: '4.6.7',
}
