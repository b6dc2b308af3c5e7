/** `llms.txt` (https://llmstxt.org): the pages for programs that read them, and `llms-full.txt` with their text. */
import type { NavSection } from './layout.js'

export interface Text {
  /** The name of the Markdown file, without its extension. */
  name: string
  title: string
  summary: string
  markdown: string
}

const HEAD = `# Weft

> Weft is an open server for LangGraph applications written in Python, TypeScript or JavaScript. It serves the HTTP API of
> LangGraph Platform, so that the official SDKs work with it unchanged, and it needs no licence key and no other service.

The API is described by \`/openapi.json\` of each server. The full text of these pages: [llms-full.txt](llms-full.txt).
`

export function llmsTxt(nav: readonly NavSection[], texts: readonly Text[]): string {
  const byName = new Map(texts.map(text => [text.name, text]))
  const sections = nav.map(({ title, pages }) => {
    const rows = pages.flatMap(({ name, label }) => {
      const text = byName.get(name)
      return text === undefined ? [] : [`- [${label}](${name}.md): ${text.summary}`]
    })
    return rows.length === 0 ? '' : `\n## ${title}\n\n${rows.join('\n')}\n`
  })
  return `${HEAD}${sections.join('')}`
}

export const llmsFullTxt = (texts: readonly Text[]): string =>
  texts.map(({ name, markdown }) => `<!-- ${name}.md -->\n\n${markdown.trim()}\n`).join('\n')
