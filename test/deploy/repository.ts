/** A real git repository in its own folder, as a source of deployments. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

export type Files = { [path: string]: string }

export interface Repository {
  folder: string
  url: string
  /** Writes the files, removes those whose text is null, commits; resolves to the commit. */
  commit(files: { [path: string]: string | null }): string
  git(...args: string[]): string
}

/** A folder for repositories, as WEFT_LOCAL_SOURCES names it; removed at the end. */
export function sourcesFolder(): { folder: string; remove(): void } {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'weft-sources-')))
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) }
}

/** Writes the files below the folder. */
export function writeFiles(folder: string, files: Files): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
}

export function makeRepository(parent: string, name: string, files: Files): Repository {
  const folder = join(parent, name)
  mkdirSync(folder)
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.org', ...args], {
      cwd: folder,
      encoding: 'utf8',
      env: { PATH: process.env.PATH, HOME: folder, GIT_CONFIG_NOSYSTEM: '1', GIT_CONFIG_GLOBAL: '/dev/null' },
    }).trim()
  const repository: Repository = {
    folder,
    url: `file://${folder}`,
    git,
    commit(changed) {
      for (const [path, text] of Object.entries(changed)) {
        const at = join(folder, path)
        mkdirSync(dirname(at), { recursive: true })
        if (text === null) rmSync(at)
        else writeFileSync(at, text)
      }
      git('add', '-A')
      git('commit', '-q', '--allow-empty', '-m', 'a change')
      return git('rev-parse', 'HEAD')
    },
  }
  git('init', '-q', '-b', 'main')
  repository.commit(files)
  return repository
}

/** An application with one graph: answers `<word> <text>`, streams `count` numbers, waits until the file `until` is there. */
export const application = (word: string): Files => ({
  'langgraph.json': JSON.stringify({ graphs: { agent: './graph.mjs:graph' }, env: { FROM_CONFIG: 'config' } }),
  'graph.mjs': graphFile(word),
})

export const graphFile = (word: string): string => `
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Annotation, END, START, StateGraph } from '@langchain/langgraph'
const state = Annotation.Root({ text: Annotation(), count: Annotation(), answer: Annotation(), env: Annotation(), until: Annotation() })
export const graph = new StateGraph(state)
  .addNode('node', async ({ text, count = 0, env, until }, { writer }) => {
    while (until && !existsSync(until)) await sleep(20)
    for (let i = 0; i < count; i++) {
      await sleep(20)
      writer?.({ i })
    }
    return { answer: ${JSON.stringify(word)} + ' ' + (env ? process.env[env] : text) }
  })
  .addEdge(START, 'node')
  .addEdge('node', END)
  .compile()
`

/** A TypeScript application that needs its own folder: a path alias of its tsconfig.json, and a relative file. */
export const aliasedApplication: Files = {
  'langgraph.json': JSON.stringify({ graphs: { agent: './src/graph.ts:graph' } }),
  'tsconfig.json': JSON.stringify({ compilerOptions: { baseUrl: '.', paths: { '@/*': ['src/*'] } } }),
  'prompt.md': 'prompt',
  'src/lib/word.ts': "export const word: string = 'aliased'\n",
  'src/graph.ts': `
import { readFileSync } from 'node:fs'
import { Annotation, END, START, StateGraph } from '@langchain/langgraph'
import { word } from '@/lib/word'
const loaded: string = readFileSync('./prompt.md', 'utf8')
export const graph = new StateGraph(Annotation.Root({ text: Annotation<string>(), answer: Annotation<string>() }))
  .addNode('node', async () => ({ answer: [word, loaded, readFileSync('prompt.md', 'utf8')].join(' ') }))
  .addEdge(START, 'node')
  .addEdge('node', END)
  .compile()
`,
}
