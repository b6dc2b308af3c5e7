/** The frame of a page: header, navigation, the text, the list of its headings. No inline script and no inline style. */
import { escapeHtml } from './escape.js'
import type { Heading } from './markdown.js'

export interface NavSection {
  title: string
  pages: { name: string; label: string }[]
}

export interface Frame {
  /** The name of the page. */
  name: string
  title: string
  summary: string
  html: string
  headings: readonly Heading[]
  nav: readonly NavSection[]
  version: string
  assets: { style: string; script: string; theme: string; icon: string; index: string }
}

export function pageOf({ name, title, summary, html, headings, nav, version, assets }: Frame): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(name === 'index' ? 'Weft' : `${title} · Weft`)}</title>
<meta name="description" content="${escapeHtml(summary)}">
<link rel="icon" href="${assets.icon}" type="image/svg+xml">
<link rel="stylesheet" href="${assets.style}">
<script src="${assets.theme}"></script>
<script src="${assets.script}" type="module" data-index="${assets.index}"></script>
</head>
<body>
<a class="skip" href="#content">Skip to the text</a>
<header class="top">
<button class="icon-button menu" type="button" aria-expanded="false" aria-controls="nav" aria-label="Pages">${icon('M2 4h12M2 8h12M2 12h12')}</button>
<a class="brand" href="index.html"><img src="${assets.icon}" alt="" width="24" height="24">Weft<small>${escapeHtml(version)}</small></a>
<button class="find" type="button" hidden>${icon('M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10M10.6 10.6 14 14')}<span>Search</span><kbd>/</kbd></button>
<span class="served" hidden><a href="../../console">Console</a><a href="../../docs">API</a></span>
<button class="icon-button theme" type="button" aria-label="Colours: as the system" hidden>${icon('M8 2a6 6 0 1 0 0 12Z')}</button>
</header>
<div class="frame">
<nav id="nav" aria-label="Pages">
${nav.map(section => navSection(section, ownerOf(name))).join('\n')}
</nav>
<main id="content" tabindex="-1">
<article>
${html}</article>
${neighbours(nav, name)}
</main>
${contents(headings)}
</div>
<dialog class="search" aria-label="Search">
<input type="search" placeholder="Search the guide" aria-label="Search the guide" role="combobox" aria-expanded="true" aria-controls="found" autocomplete="off" spellcheck="false">
<ol id="found" role="listbox" aria-label="Results"></ol>
<p class="hint">No results yet: type a word.</p>
</dialog>
</body>
</html>
`
}

const icon = (path: string): string =>
  `<svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d="${path}"/></svg>`

const navSection = ({ title, pages }: NavSection, current: string): string =>
  `<h2>${escapeHtml(title)}</h2>\n<ul>\n${pages
    .map(
      ({ name, label }) =>
        `<li><a href="${name}.html"${name === current ? ' aria-current="page"' : ''}>${escapeHtml(label)}</a></li>`,
    )
    .join('\n')}\n</ul>`

/** The page of the navigation that a page outside of it belongs to. */
const ownerOf = (name: string): string => name.replace(/^(reference|decisions)-.*$/, '$1')

/** The page before and the one after it in the navigation. */
function neighbours(nav: readonly NavSection[], current: string): string {
  const pages = nav.flatMap(({ pages }) => pages)
  const at = pages.findIndex(({ name }) => name === current)
  if (at === -1) return ''
  const link = (page: { name: string; label: string } | undefined, rel: 'prev' | 'next', text: string) =>
    page === undefined
      ? '<span></span>'
      : `<a rel="${rel}" href="${page.name}.html"><small>${text}</small>${escapeHtml(page.label)}</a>`
  return `<nav class="neighbours" aria-label="Neighbours">${link(pages[at - 1], 'prev', 'Previous')}${link(pages[at + 1], 'next', 'Next')}</nav>`
}

/** The headings of the second and third level; none for a short page. */
function contents(headings: readonly Heading[]): string {
  const listed = headings.filter(({ depth }) => depth === 2 || depth === 3)
  if (listed.length < 2) return '<aside class="contents"></aside>'
  const rows = listed.map(
    ({ depth, id, title }) => `<li class="depth-${depth}"><a href="#${id}">${escapeHtml(title)}</a></li>`,
  )
  return `<aside class="contents"><nav aria-label="On this page"><h2>On this page</h2>\n<ul>\n${rows.join('\n')}\n</ul></nav></aside>`
}
