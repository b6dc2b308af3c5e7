/** Writes the files of the guide: pages, what they load, the search index, and the texts for programs. */
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, extname, join } from 'node:path'
import { root } from '../../cli/root.js'
import { makeAssets } from './assets.js'
import { type NavSection, pageOf } from './layout.js'
import { openLinks } from './links.js'
import { llmsFullTxt, llmsTxt, type Text } from './llms.js'
import { type Rendered, render } from './markdown.js'
import { DECISIONS, type Site } from './pages.js'
import { referencePages } from './reference.js'
import { indexOf } from './search-index.js'

interface Made extends Rendered {
  name: string
  /** Null: it has no Markdown file. */
  markdown: string | null
}

const read = (file: string): string => readFileSync(join(root, file), 'utf8')
const hashOf = (bytes: string | Uint8Array): string => createHash('sha256').update(bytes).digest('hex').slice(0, 10)

/** Throws an error with one sentence when a page links to a file that does not exist. */
export async function writeSite(site: Site, folder: string): Promise<void> {
  const { version } = JSON.parse(read('package.json')) as { version: string }
  const links = openLinks(root, site.names)
  const made: Made[] = [...site.names].map(([file, name]) => {
    const text = withParts(read(file))
    const rendered = render(text, href => links.resolve(file, href, '.html'))
    // Programs follow links from one Markdown file to the next.
    const markdown = text.replaceAll(/(?<=\]\()[^)\s]+(?=\))/g, href => links.resolve(file, href, '.md') ?? href)
    return { ...rendered, name, markdown }
  })
  const asIs = (href: string) => href
  const reference = referencePages(version).map(({ name, markdown }) => ({
    ...render(markdown, asIs),
    name,
    markdown: null,
  }))
  const decisions = { ...render(decisionsPage(site, made), asIs), name: 'decisions', markdown: null }
  const pages = [...made, ...reference, decisions]

  const titles = new Map(pages.map(({ name, title }) => [name, title]))
  const nav: NavSection[] = site.sections.map(({ title, pages }) => ({
    title,
    pages: pages.map(({ name, label }) => ({ name, label: label ?? titles.get(name)! })),
  }))

  mkdirSync(folder, { recursive: true })
  const put = (name: string, bytes: string | Uint8Array) => writeFileSync(join(folder, name), bytes)
  const putHashed = (name: string, bytes: string | Uint8Array): string => {
    const extension = extname(name)
    const hashed = `${basename(name, extension)}-${hashOf(bytes)}${extension}`
    put(hashed, bytes)
    return hashed
  }
  const assets = { ...(await makeAssets(putHashed)), index: putHashed('search.json', indexOf(pages)) }
  for (const page of pages) put(`${page.name}.html`, pageOf({ ...page, nav, version, assets }))
  for (const [file, asset] of links.assets) put(asset, readFileSync(join(root, file)))

  const texts = made.filter((page): page is Made & Text => page.markdown !== null)
  for (const { name, markdown } of texts) put(`${name}.md`, markdown)
  put('llms.txt', llmsTxt(nav, texts))
  const inOrder = nav.flatMap(({ pages }) => pages).flatMap(({ name }) => texts.filter(text => text.name === name))
  put('llms-full.txt', llmsFullTxt(inOrder))
}

/** `<!-- include <file> <name> -->` is replaced by the text of the file between its two markers `<!-- <name> -->`. */
const withParts = (text: string): string =>
  text.replaceAll(/<!-- include (\S+) (\S+) -->/g, (_, file: string, name: string) => {
    const part = read(file).split(`<!-- ${name} -->`)[1]
    if (part === undefined) throw new Error(`${file} has no text between two markers <!-- ${name} -->`)
    return part
  })

/** All decisions by folder, in the order of their numbers. */
function decisionsPage({ names }: Site, made: readonly Made[]): string {
  const decisions = [...names].filter(([file]) => file.startsWith(DECISIONS))
  const folderOf = (file: string) => file.slice(DECISIONS.length).split('/')[0]!
  const folders = [...new Set(decisions.map(([file]) => folderOf(file)))]
  const parts = folders.map(folder => {
    const files = decisions.filter(([file]) => folderOf(file) === folder)
    const rows = files.map(([, name]) => `- [${made.find(page => page.name === name)!.title}](${name}.html)`)
    return `## ${folder.charAt(0).toUpperCase() + folder.slice(1)}\n\n${rows.join('\n')}\n`
  })
  return `# Decisions\n\nWhat later readers may question: the context, the decision, what was measured, and what follows.\n\n${parts.join('\n')}`
}
