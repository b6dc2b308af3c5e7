/** The pages of the guide: every Markdown file of docs/, and those beside the code, each with the name of its page. */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../cli/root.js'

export interface Page {
  /** Below the root; null: the build makes it from something else. */
  file: string | null
  /** Without an extension. */
  name: string
  /** In the navigation; the heading of the page when absent. */
  label?: string
}
export interface Section {
  title: string
  pages: Page[]
}

type Row = readonly [file: string, label?: string]

/** The order of the navigation. Files of docs/ that are not named here come last. */
const SECTIONS: readonly (readonly [title: string, rows: readonly Row[]])[] = [
  [
    'Start',
    [
      ['docs/guide/index.md', 'Introduction'],
      ['docs/guide/quick-start.md', 'Quick start'],
      ['docs/guide/tutorial.md', 'Tutorial'],
    ],
  ],
  [
    'Guides',
    [
      ['docs/guide/streaming.md', 'Streaming and resuming'],
      ['docs/guide/interrupts.md', 'Interrupts'],
      ['docs/guide/agents.md', 'Agents in the background'],
      ['docs/guide/front-ends.md', 'Front ends'],
      ['docs/guide/inside.md', 'Inside your own server'],
      ['docs/guide/python.md', 'Python applications'],
      ['docs/guide/docker.md', 'Docker on one machine'],
      ['docs/guide/databases.md', 'Which database'],
      ['docs/guide/pools.md', 'Pools and scaling'],
      ['docs/guide/security.md', 'Security'],
      ['docs/guide/observability.md', 'Observability'],
      ['docs/guide/troubleshooting.md', 'Troubleshooting'],
    ],
  ],
  [
    'Move to Weft',
    [
      ['docs/guide/from-platform.md', 'From LangGraph Platform'],
      ['docs/guide/from-development-servers.md', 'From development servers'],
    ],
  ],
  [
    'Reference',
    [
      ['docs/application.md', 'langgraph.json'],
      ['docs/api.md', 'HTTP API'],
      ['docs/differences.md', 'Differences from other servers'],
      ['reference', 'API reference'],
      ['docs/authentication.md', 'Authentication'],
      ['docs/command-line.md', 'Command line'],
      ['docs/configuration.md', 'Configuration'],
    ],
  ],
  [
    'Wire contract',
    [
      ['docs/spec/http.md', 'HTTP'],
      ['docs/spec/assistants.md', 'Assistants'],
      ['docs/spec/threads.md', 'Threads'],
      ['docs/spec/runs.md', 'Runs'],
      ['docs/spec/streams.md', 'Streams'],
      ['docs/spec/protocol-v2.md', 'Protocol v2'],
      ['docs/spec/crons.md', 'Crons'],
      ['docs/spec/items.md', 'Items'],
      ['docs/spec/protocols.md', 'MCP and A2A'],
      ['docs/spec/auth.md', 'Auth'],
      ['docs/spec/application.md', 'langgraph.json'],
      ['docs/spec/control-plane.md', 'Control plane'],
      ['docs/spec/oauth.md', 'OAuth'],
    ],
  ],
  [
    'Operate',
    [
      ['docs/operations.md', 'Operations'],
      ['docs/runbook.md', 'Runbook'],
      ['docs/upgrading.md', 'Upgrading'],
      ['docs/kubernetes.md', 'Kubernetes'],
      ['docs/deployments.md', 'Deployments'],
      ['docs/control-plane.md', 'Control plane'],
      ['docs/scaling.md', 'Scaling'],
      ['docs/performance.md', 'Performance'],
    ],
  ],
  [
    'What to expect',
    [
      ['docs/promises.md', 'Promises'],
      ['docs/faults.md', 'Faults'],
      ['docs/guide/limits.md', 'Honest limits'],
    ],
  ],
]
const PROJECT: readonly Row[] = [
  ['docs/internals.md', 'Internals'],
  ['docs/pipe.md', 'Contract of hosts'],
  ['docs/words.md', 'Words'],
  ['decisions', 'Decisions'],
  ['README.md', 'Readme'],
  ['CHANGELOG.md', 'Changelog'],
  ['CONTRIBUTING.md', 'Contributing'],
]
export const DECISIONS = 'docs/decisions/'

export interface Site {
  sections: Section[]
  /** Pages outside of the navigation: decisions, and the parts of the API reference. */
  others: Page[]
  /** File below the root → the name of its page. */
  names: ReadonlyMap<string, string>
}

/** Throws when two files have one name. */
export function findPages(folder: string = root): Site {
  const documents = markdownIn(folder, 'docs')
  const examples = ['examples', 'console'].flatMap(place => markdownIn(folder, place)).filter(isReadme)
  const named = new Set([...SECTIONS.flatMap(([, rows]) => rows), ...PROJECT].map(([file]) => file))
  const more = documents.filter(file => !named.has(file) && !file.startsWith(DECISIONS))
  const sections = [
    ...SECTIONS.map(([title, rows]) => ({ title, pages: pagesOf(folder, rows) })),
    { title: 'Examples', pages: pagesOf(folder, examples.filter(file => file.startsWith('examples/')).map(only)) },
    { title: 'Project', pages: pagesOf(folder, [...PROJECT, ...more.map(only)]) },
  ].filter(({ pages }) => pages.length > 0)
  const others = documents
    .filter(file => file.startsWith(DECISIONS))
    .concat(examples.filter(file => !file.startsWith('examples/')))
    .map(file => ({ file, name: nameOf(file) }))
  const names = new Map<string, string>()
  const seen = new Set<string>()
  for (const { file, name } of [...sections.flatMap(({ pages }) => pages), ...others]) {
    if (seen.has(name)) throw new Error(`two pages would be named ${name}.html: rename ${file}`)
    seen.add(name)
    if (file !== null) names.set(file, name)
  }
  return { sections, others, names }
}

/** Other Markdown beside code is data of it. `weft new` copies the templates. */
const isReadme = (file: string): boolean => file.endsWith('/README.md') && !file.startsWith('examples/new/')

const only = (file: string): Row => [file]

const pagesOf = (folder: string, rows: readonly Row[]): Page[] =>
  rows
    .filter(([file]) => !file.includes('.') || existsSync(join(folder, file)))
    .map(([file, label]) => ({
      file: file.includes('.') ? file : null,
      name: file.includes('.') ? nameOf(file) : file,
      ...(label === undefined ? {} : { label }),
    }))

/** docs/guide/tutorial.md → tutorial, docs/api.md → api, examples/chat/README.md → examples-chat. */
const nameOf = (file: string): string =>
  file
    .replace(/^docs\/(guide\/)?/, '')
    .replace(/\/README\.md$|\.md$/, '')
    .replaceAll('/', '-')
    .toLowerCase()

const markdownIn = (folder: string, place: string): string[] =>
  existsSync(join(folder, place))
    ? (readdirSync(join(folder, place), { recursive: true }) as string[])
        .filter(file => file.endsWith('.md') && !file.includes('node_modules'))
        .map(file => join(place, file).replaceAll('\\', '/'))
        .sort()
    : []
