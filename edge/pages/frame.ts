/**
 * The frame of the pages that the edge writes itself, with the header of the guide. What they load is in a folder that the
 * build makes (`viewer`): style and fonts of the guide, and the viewer of the API.
 */
import { join } from 'node:path'
import { consoleAddress } from '../console-address.js'
import type { Edge } from '../context.js'
import { type BuiltFolder, openFolder } from '../files.js'
import type { Exchange } from '../http/exchange.js'

export const openViewer = (folder = join(import.meta.dirname, '../openapi/viewer')): BuiltFolder => openFolder(folder)

interface FrameOptions {
  title: string
  /** Where the pages of the server are; "." for a page beside them. */
  base: string
  /** Null: it is not served. */
  console: string | null
  /** Files of the folder. */
  styles: readonly string[]
  scripts: readonly string[]
  body: string
}

export const framed = ({ title, base, console, styles, scripts, body }: FrameOptions): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="icon" href="${base}/docs/icon.svg" type="image/svg+xml">
${styles.map(file => `<link rel="stylesheet" href="${base}/docs/${file}">`).join('\n')}
<script src="${base}/docs/theme.js"></script>
${scripts.map(file => `<script src="${base}/docs/${file}" defer></script>`).join('\n')}
</head>
<body>
<header class="top">
<a class="brand" href="${base}/docs/guide"><img src="${base}/docs/icon.svg" alt="" width="24" height="24">Weft</a>
<nav class="served" aria-label="Pages">${console === null ? '' : `<a href="${console}">Console</a>`}<a href="${base}/docs/guide">Guide</a><a href="${base}/docs">API</a></nav>
<button class="icon-button theme" type="button" aria-label="Colours: as the system" hidden><svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d="M8 2a6 6 0 1 0 0 12Z"/></svg></button>
</header>
${body}
</body>
</html>
`

/** The address of the console in a page whose other links begin with `base`; null where it is not served. */
export function consoleFrom(base: string, edge: Edge, { mount }: Exchange): string | null {
  // A deployment has none.
  const address = mount === null ? consoleAddress(edge) : null
  return address === null || edge.config.console_url !== '' ? address : `${base}/console`
}
