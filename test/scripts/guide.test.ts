/** The built guide: every document has a page, and every link leads somewhere. */
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import MiniSearch from 'minisearch'
import t from 'tap'
import { root } from '../../cli/root.js'
import { openLinks } from '../../scripts/guide/links.js'
import { render } from '../../scripts/guide/markdown.js'
import { findPages } from '../../scripts/guide/pages.js'
import { FIELDS, find } from '../../scripts/guide/search-fields.js'

const folder = join(root, 'dist/guide')
t.before(() => {
  const { status } = spawnSync(process.execPath, [join(root, 'dist/scripts/guide/build.js')], { stdio: 'inherit' })
  if (status !== 0) throw new Error('the guide could not be built')
})

const read = (file: string): string => readFileSync(join(folder, file), 'utf8')
const pagesIn = (): string[] => readdirSync(folder).filter(file => file.endsWith('.html'))
/** Pages of the edge: these two are shown where it serves the guide. */
const OF_THE_EDGE = new Set(['../../console', '../../docs'])

t.test('every document is a page', async t => {
  const files = new Set(readdirSync(folder))
  const documents = (readdirSync(join(root, 'docs'), { recursive: true }) as string[]).filter(file =>
    file.endsWith('.md'),
  )
  const { names } = findPages()
  for (const document of documents) {
    const name = names.get(`docs/${document}`)
    t.ok(name !== undefined && files.has(`${name}.html`) && files.has(`${name}.md`), document)
  }
})

t.test('every link of a page leads to a file and to an element of it; others are well formed', async t => {
  const files = new Set(readdirSync(folder))
  const ids = new Map(
    pagesIn().map(page => [page, new Set([...read(page).matchAll(/\sid="([^"]*)"/g)].map(([, id]) => id))]),
  )
  t.ok(ids.size > 60)
  for (const page of ids.keys()) {
    const wrong: string[] = []
    for (const [, link = ''] of read(page).matchAll(/\s(?:href|src|data-index)="([^"]*)"/g)) {
      if (OF_THE_EDGE.has(link)) continue
      if (/^[a-z]+:/.test(link)) {
        if (!URL.canParse(link) || !/^(https|mailto):/.test(link)) wrong.push(link)
        continue
      }
      const [file = '', anchor] = link.split('#')
      if (file !== '' && !files.has(file)) wrong.push(link)
      else if (anchor !== undefined && !ids.get(file || page)?.has(decodeURIComponent(anchor))) wrong.push(link)
    }
    t.same(wrong, [], page)
  }
})

t.test('the Markdown of a page links to Markdown', async t => {
  const files = new Set(readdirSync(folder))
  for (const file of [...files].filter(file => file.endsWith('.md'))) {
    const prose = read(file).replaceAll(/^```[\s\S]*?^```$/gm, '')
    for (const [, link = ''] of prose.matchAll(/\]\(([^)\s#]+\.md)(?:#[^)]*)?\)/g))
      t.ok(files.has(link), `${file}: ${link}`)
  }
})

t.test('the search finds settings, commands and routes', async t => {
  const file = readdirSync(folder).find(name => name.startsWith('search-'))!
  const index = MiniSearch.loadJSON(read(file), FIELDS)
  const first = (text: string) => find(index, text).map(({ id }) => `${id}`)
  t.match(first('WEFT_RESUMABLE_TTL_MS'), [/^configuration\.html/])
  t.ok(first('quick start').includes('quick-start.html'))
  t.ok(first('last-event-id').some(id => id.startsWith('streaming.html')))
  t.same(first('xyzzyplugh'), [])
})

t.test('the search puts the page that answers a question first', t => {
  const file = readdirSync(folder).find(name => name.startsWith('search-'))!
  const index = MiniSearch.loadJSON(read(file), FIELDS)
  for (const [text, page] of [
    ['port already in use', /^troubleshooting\.html#the-port-is-already-in-use$/],
    ['multiple users', /^(security|examples-tenants)\.html/],
    ['kubernetes helm', /^kubernetes\.html/],
    ['kubernetes', /^kubernetes\.html/],
    ['troubleshooting', /^troubleshooting\.html$/],
    ['front ends', /^front-ends\.html$/],
    ['docker on one machine', /^docker\.html$/],
    ['observability', /^observability\.html$/],
    ['which database', /^databases\.html$/],
    ['how do I stream tokens', /^(streaming|quick-start)\.html/],
    ['cron time zone', /^(troubleshooting|api|spec-crons)\.html/],
  ] as const)
    t.match(`${find(index, text)[0]?.id}`, page, text)
  const ids = find(index, 'delete a deployment').map(({ id }) => `${id}`)
  const of = (start: string) => ids.findIndex(id => id.startsWith(start))
  t.ok(of('deployments.html') < of('reference-control-plane.html'), 'routes of the control plane come last')
  t.end()
})

t.test('a link to nothing stops the build, a file of the repository is shown as text', async t => {
  const { resolve } = openLinks(root, new Map([['docs/api.md', 'api']]))
  t.throws(() => resolve('docs/x.md', 'none.md', '.html'), /docs\/x\.md links to none\.md, which does not exist/)
  t.equal(resolve('docs/x.md', 'api.md#runs', '.html'), 'api.html#runs')
  t.equal(resolve('docs/guide/x.md', '../api.md', '.md'), 'api.md')
  t.equal(resolve('docs/x.md', '../LICENSE', '.html'), null)
})

t.test('code, titles and text are escaped', async t => {
  const { html } = render(
    '# <b>\n\n```ts title="a<b"\nconst a = "<script>"\n```\n\n`<i>` and a [link](x"y)',
    href => href,
  )
  t.notMatch(html, /<script|<i>|"x"y/)
  t.match(html, /<figcaption>a&lt;b<\/figcaption>/)
})
