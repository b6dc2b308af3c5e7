/** `/` for a person with a browser: where the console, the guide and the API are. */
import type { Edge } from '../context.js'
import { FRESH, PAGE_HEADERS } from '../files.js'
import type { Exchange } from '../http/exchange.js'
import { consoleFrom, framed } from './frame.js'

export function startPage(edge: Edge, exchange: Exchange): void {
  // Absolute below a prefix, whose page may be asked for without a slash at its end.
  const base = edge.application?.http.mount_prefix || '.'
  const console = consoleFrom(base, edge, exchange)
  const cards = [
    ...(console === null ? [] : [card(console, 'Console', 'Chats, threads, runs, crons and workers of this server.')]),
    card(`${base}/docs/guide`, 'Guide', 'A tutorial, how to serve and operate applications, every setting.'),
    card(`${base}/docs`, 'API', 'Every route, with forms to try it.'),
  ]
  const body = `<main class="start">
<h1>Weft</h1>
<p>This server runs LangGraph applications.</p>
<ul>
${cards.join('\n')}
</ul>
<p class="note">Clients use this address as their <code>apiUrl</code>.</p>
</main>`
  const page = framed({ title: 'Weft', base, console, styles: ['house.css', 'start.css'], scripts: ['start.js'], body })
  exchange.reply(200, page, {
    ...PAGE_HEADERS,
    'Content-Type': 'text/html; charset=utf-8',
    'Cache-Control': FRESH,
    Vary: 'Accept',
  })
}

const card = (address: string, title: string, text: string): string =>
  `<li><a href="${address}"><b>${title}</b><span>${text}</span></a></li>`
