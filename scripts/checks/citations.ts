/**
 * The check that comments cite what the repository has: a page of docs/ with a heading of it (`docs/spec/runs.md#cancel`),
 * a decision by its number (`decision 006`), or a source file. Sections of documents that are elsewhere are refused, and so
 * are comments that begin without their subject.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../cli/root.js'
import { filesIn } from './imports.js'

const ROOMS = [
  'schemas',
  'bus',
  'store',
  'edge',
  'workers',
  'handler',
  'cli',
  'scripts',
  'console',
  'test',
  'examples',
  'deploy',
]
const ENDINGS = ['ts', 'mjs', 'py', 'sh', 'yml', 'yaml', 'html']
/** Sections by number, and names of documents without a path. */
const ELSEWHERE =
  /\b(?:[Dd]esign|[Rr]eliability|threads-and-runs|assistants-crons-store|control-plane):? (?:section )?§?\d|\b[Oo]f reliability\b|[(]contract\b|[(]API:|\bAPI:? (?:threads-and-runs|assistants-crons-store|control-plane|contract)\b/g
const PAGE = /\bdocs\/[\w./-]+?\.md(?:#[\w-]*)?/g
const SOURCE =
  /(?<![\w./@-])(?:schemas|bus|store|edge|workers|handler|cli|scripts|test|console|examples)\/[\w./-]+\.(?:tsx?|py|mjs|sh)\b/g
/** A comment that leaves its subject to the reader. */
const FRAGMENT = /\/\*\*(?:\n\s*\*)? (Of|Those|What) /g
const DECISION = /\bdecision (\d{3})\b/gi

/** The violations below `folder`, one line each. */
export function checkCitations(folder: string = root): string[] {
  const pages = new Map<string, Set<string> | null>()
  const headingsOf = (page: string): Set<string> | null => {
    if (!pages.has(page))
      pages.set(page, existsSync(join(folder, page)) ? anchorsOf(readFileSync(join(folder, page), 'utf8')) : null)
    return pages.get(page)!
  }
  const decisions = decisionsIn(folder)
  const broken: string[] = []
  for (const file of ROOMS.flatMap(room => ENDINGS.flatMap(ending => filesIn(folder, room, ending))).sort()) {
    const source = readFileSync(join(folder, file), 'utf8')
    const report = (at: number, why: string) => broken.push(`${file}:${source.slice(0, at).split('\n').length}: ${why}`)
    for (const { 0: text, index } of source.matchAll(ELSEWHERE))
      report(index, `"${text}": cite a page of docs/, or a decision`)
    for (const { 1: word, index } of source.matchAll(FRAGMENT)) report(index, `"${word} …": begin with the subject`)
    for (const { 0: text, 1: number = '', index } of source.matchAll(DECISION))
      if (!decisions.has(number)) report(index, `there is no ${text}`)
    // Pages and files in tests of the guide and of checks exist only there.
    if (file.startsWith('test/scripts/') || file.startsWith('scripts/guide/')) continue
    for (const { 0: text, index } of source.matchAll(SOURCE))
      if (!existsSync(join(folder, text))) report(index, `there is no ${text}`)
    for (const { 0: text, index } of source.matchAll(PAGE)) {
      const [page = '', anchor] = text.split('#')
      const headings = headingsOf(page)
      if (headings === null) report(index, `there is no ${page}`)
      else if (anchor !== undefined && !headings.has(anchor)) report(index, `${page} has no heading #${anchor}`)
    }
  }
  return broken
}

/** The anchors of a page's headings, as git hosts make them. */
export const anchorsOf = (text: string): Set<string> =>
  new Set(
    [...text.matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
      title
        .toLowerCase()
        .replaceAll(/[^\w\- ]/g, '')
        .replaceAll(' ', '-'),
    ),
  )

function decisionsIn(folder: string): Set<string> {
  const place = join(folder, 'docs/decisions')
  const files = existsSync(place) ? (readdirSync(place, { recursive: true }) as string[]) : []
  return new Set(files.flatMap(file => /(?:^|[\\/])(\d{3})-[^\\/]*\.md$/.exec(file)?.[1] ?? []))
}
