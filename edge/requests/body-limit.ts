/** How large a body each route takes. */
import type { AnswerKind, Route } from '../routes.js'

/**
 * Largest body of a route that takes no values of graphs: 1 MB of characters of an assistant, 512 KiB of secrets of a
 * deployment and 10,000 ids of a search fit. Each MB blocks the resource worker for about 10 ms.
 */
const SHORT_BODY = 4 * 1024 * 1024

/**
 * Largest bodies of routes that the edge itself parses: each MB blocks all of its streams for about 5 ms. The arguments of
 * MCP are written by a model, of which 4 MB is a million tokens; a message of A2A carries files, 12 MB of them in base64.
 */
const PARSED: { readonly [answer in AnswerKind]?: number } = {
  ui: 128 * 1024,
  mcp: SHORT_BODY,
  a2a: 16 * 1024 * 1024,
}

/** Bytes; infinite where only the setting limits it. */
export const bodyLimit = ({ answer, values }: Route): number =>
  PARSED[answer] ?? (values ? Number.POSITIVE_INFINITY : SHORT_BODY)
