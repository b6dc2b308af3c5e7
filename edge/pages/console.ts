/** `/console`: the files that the build made of console/. The calls of the page carry the key that a person enters there. */
import { join } from 'node:path'
import { isUuid } from '../../schemas/ids.js'
import { addressOf, isOff } from '../console-address.js'
import type { Edge } from '../context.js'
import { type BuiltFile, type BuiltFolder, FOREVER, FRESH, openFolder, replyFile } from '../files.js'
import type { Exchange } from '../http/exchange.js'

const PAGE = 'index.html'
const OFF =
  'The console is off where other machines can reach a server without authentication: WEFT_REQUIRE_KEYS=1, or an "auth" in langgraph.json, turns it on'
const MISSING = 'The console is not built: run `npm run build`'

export const openConsole = (folder = join(import.meta.dirname, '../../console')): BuiltFolder => openFolder(folder)

/** The page. The addresses in it are relative, so that it also works behind a prefix. */
export async function consolePage(edge: Edge, exchange: Exchange): Promise<void> {
  if (exchange.mount === null && !isOff(edge) && isElsewhere(edge, exchange))
    return exchange.reply(303, null, { Location: addressOf(edge) })
  const files = await filesFor(edge, exchange)
  if (files !== null) await replyFile(exchange, files.get(PAGE)!, FRESH)
}

/** A file of the bundle; its name changes with its content. */
export async function consoleFile(edge: Edge, exchange: Exchange): Promise<void> {
  const { file: name = '' } = exchange.params
  const files = await filesFor(edge, exchange)
  if (files === null) return
  const file = files.get(name)
  if (file === undefined || name === PAGE) return exchange.refuse('not_found')
  await replyFile(exchange, file, FOREVER)
}

/** The address that existing clients of the control plane show for a deployment. Relative, as those in the page. */
export function consoleLink(edge: Edge, exchange: Exchange): void {
  const { tenant_id, deployment_id } = exchange.params
  if (!isUuid(tenant_id!) || !isUuid(deployment_id!)) return exchange.refuse('not_found')
  const page = edge.config.console_url === '' ? '../../../../console' : addressOf(edge)
  exchange.reply(303, null, { Location: `${page}#/deployments/${deployment_id}` })
}

/** Whether the console has an origin of its own, which is another one. */
const isElsewhere = ({ config, pages }: Edge, exchange: Exchange): boolean =>
  config.console_url !== '' && !pages.isConsole(exchange)

/** Null: the request was refused and answered. */
async function filesFor(edge: Edge, exchange: Exchange): Promise<ReadonlyMap<string, BuiltFile> | null> {
  // A deployment has no console.
  if (exchange.mount !== null || isElsewhere(edge, exchange)) {
    exchange.refuse('not_found')
    return null
  }
  const files = isOff(edge) ? null : await edge.console.files().catch(() => null)
  if (files?.has(PAGE)) return files
  exchange.refuse('not_found', isOff(edge) ? OFF : MISSING)
  return null
}
