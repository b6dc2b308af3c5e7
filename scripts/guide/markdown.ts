/** Markdown to HTML: headings with anchors as git hosts make them, links between pages, code in colours. */
import hljs from 'highlight.js/lib/core'
import bash from 'highlight.js/lib/languages/bash'
import dockerfile from 'highlight.js/lib/languages/dockerfile'
import ini from 'highlight.js/lib/languages/ini'
import javascript from 'highlight.js/lib/languages/javascript'
import json from 'highlight.js/lib/languages/json'
import python from 'highlight.js/lib/languages/python'
import typescript from 'highlight.js/lib/languages/typescript'
import xml from 'highlight.js/lib/languages/xml'
import yaml from 'highlight.js/lib/languages/yaml'
import { Marked, type Token, type Tokens } from 'marked'
import { escapeHtml } from './escape.js'

const LANGUAGES = { bash, dockerfile, ini, javascript, json, python, typescript, xml, yaml }
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language)

export interface Heading {
  depth: number
  id: string
  /** Plain text. */
  title: string
}

/** The text below a heading, for the search. */
export interface Passage {
  /** '' is the top of the page. */
  id: string
  title: string
  text: string
}

export interface Rendered {
  html: string
  title: string
  /** The first sentence, without markup. */
  summary: string
  headings: Heading[]
  passages: Passage[]
}

/** Where a link or an image of the page leads; null: it is shown as text. Throws when its target does not exist. */
export type Resolve = (href: string) => string | null

export function render(text: string, resolve: Resolve): Rendered {
  const anchors = anchorsOf()
  const headings: Heading[] = []
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth }: Tokens.Heading) {
        const title = plain(tokens)
        const id = anchors(title)
        headings.push({ depth, id, title })
        const link = depth === 1 ? '' : `<a class="anchor" href="#${id}" aria-label="Link to this section"></a>`
        return `<h${depth} id="${id}">${this.parser.parseInline(tokens)}${link}</h${depth}>\n`
      },
      code: ({ text, lang = '' }: Tokens.Code) => codeBlock(text, lang),
      link({ href, tokens }: Tokens.Link) {
        const inner = this.parser.parseInline(tokens)
        const target = resolve(href)
        if (target === null) return `<span class="file" title="A file of the repository">${inner}</span>`
        return `<a href="${escapeHtml(target)}"${/^https?:/.test(target) ? ' rel="noreferrer"' : ''}>${inner}</a>`
      },
      table({ header, rows }: Tokens.Table) {
        const inline = (cell: Tokens.TableCell) => this.parser.parseInline(cell.tokens)
        const align = (cell: Tokens.TableCell) => (cell.align === 'right' ? ' class="right"' : '')
        // An empty heading is none.
        const head = header.map(cell => (cell.text === '' ? '<td></td>' : `<th${align(cell)}>${inline(cell)}</th>`))
        const labels = header.map(cell => escapeHtml(plain(cell.tokens)))
        const body = rows.map(
          row =>
            `<tr>${row.map((cell, i) => `<td${align(cell)} data-label="${labels[i]}">${inline(cell)}</td>`).join('')}</tr>`,
        )
        const kind = header.length > 2 ? 'table wide' : 'table'
        return `<div class="${kind}" tabindex="0"><table><thead><tr>${head.join('')}</tr></thead>\n<tbody>${body.join('\n')}</tbody></table></div>\n`
      },
      image: ({ href, text }: Tokens.Image) =>
        `<img src="${escapeHtml(resolve(href) ?? '')}" alt="${escapeHtml(text)}" loading="lazy">`,
      // Comments mark tables for tests.
      html: ({ text }: Tokens.HTML | Tokens.Tag) => text.replaceAll(/<!--[\s\S]*?-->/g, ''),
    },
  })
  const tokens = marked.lexer(text)
  const html = marked.parser(tokens)
  const paragraph = tokens.find(token => token.type === 'paragraph')
  return {
    html,
    title: headings[0]?.title ?? '',
    summary: sentenceOf(paragraph === undefined ? '' : plain([paragraph])),
    headings,
    passages: passagesOf(tokens, headings),
  }
}

/** `ts title="agent.ts"`: the language, and a title that is shown above. */
export function codeBlock(text: string, info: string): string {
  const [, language = '', rest = ''] = /^(\S*)\s*(.*)$/.exec(info)!
  const title = /title="([^"]*)"/.exec(rest)?.[1]
  const name = ALIASES[language] ?? language
  const html = hljs.getLanguage(name) ? hljs.highlight(text, { language: name }).value : escapeHtml(text)
  const caption = title === undefined ? '' : `<figcaption>${escapeHtml(title)}</figcaption>`
  const kind = language === '' || language === 'text' ? 'output' : 'source'
  return `<figure class="code ${kind}">${caption}<pre tabindex="0"><code>${html}\n</code></pre></figure>\n`
}
const ALIASES: { readonly [language: string]: string } = {
  sh: 'bash',
  js: 'javascript',
  ts: 'typescript',
  tsx: 'typescript',
  html: 'xml',
}

/** Anchors of one page: of equal titles, later ones get a number. */
function anchorsOf(): (title: string) => string {
  const used = new Map<string, number>()
  return title => {
    const id = title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}_\- ]/gu, '')
      .replaceAll(' ', '-')
    const count = used.get(id) ?? 0
    used.set(id, count + 1)
    return count === 0 ? id : `${id}-${count}`
  }
}

function passagesOf(tokens: readonly Token[], headings: readonly Heading[]): Passage[] {
  const passages: Passage[] = []
  let at = 0
  for (const token of tokens) {
    if (token.type === 'heading') {
      const { depth, id, title } = headings[at++]!
      passages.push({ id: depth === 1 ? '' : id, title, text: '' })
    } else if (token.type !== 'html' && passages.length > 0) {
      const last = passages.at(-1)!
      last.text = `${last.text} ${plain([token])}`.trim()
    }
  }
  return passages
}

const ENTITIES: { readonly [name: string]: string } = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" }

/** Text without markup. */
function plain(tokens: readonly Token[]): string {
  return tokens
    .map(token => {
      if (token.type === 'table') {
        const { header, rows } = token as Tokens.Table
        return [header, ...rows].map(row => row.map(cell => plain(cell.tokens)).join(' ')).join(' ')
      }
      if (token.type === 'list') return (token as Tokens.List).items.map(item => plain(item.tokens)).join(' ')
      if ('tokens' in token && token.tokens !== undefined) return plain(token.tokens)
      return 'text' in token ? unescapeHtml(`${token.text}`) : ' '
    })
    .join('')
    .replaceAll(/\s+/g, ' ')
}
const unescapeHtml = (text: string): string =>
  text.replaceAll(/&(amp|lt|gt|quot|#39);/g, (_, name: string) => ENTITIES[name] ?? '')

/** Up to the first full stop or colon at the end of a sentence. */
const sentenceOf = (text: string): string => (/^.*?[.:?!](?=\s|$)/.exec(text)?.[0] ?? text).replace(/:$/, '.')
