/** `/docs/guide`: the site that `npm run docs` makes of docs/. Public as `/docs`, and the same for every caller. */
import { join } from 'node:path'
import type { Edge } from '../context.js'
import { type BuiltFolder, FOREVER, FRESH, openFolder, replyFile } from '../files.js'
import type { Exchange } from '../http/exchange.js'

const MISSING = 'The guide is not built: run `npm run docs`'
/** Files whose names contain a hash of their content. */
const HASHED = /-[0-9a-f]{10}\.\w+$/

export const openGuide = (folder = join(import.meta.dirname, '../../guide')): BuiltFolder => openFolder(folder)

/** To the first page. Relative, so that it also works behind a prefix. */
export const guide = (exchange: Exchange): void => exchange.reply(303, null, { Location: './guide/index.html' })

/** A page, or a file of the pages. */
export async function guideFile(edge: Edge, exchange: Exchange): Promise<void> {
  const { file: name = '' } = exchange.params
  const files = await edge.guide.files().catch(() => null)
  if (files === null) return exchange.refuse('not_found', MISSING)
  const file = files.get(name)
  if (file === undefined && files.has(`${name}.html`))
    return exchange.reply(303, null, { Location: `./${encodeURIComponent(name)}.html` })
  if (file === undefined) return exchange.refuse('not_found')
  await replyFile(exchange, file, HASHED.test(name) ? FOREVER : FRESH)
}
