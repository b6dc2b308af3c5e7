/**
 * uWebSockets.js: its one package contains the native parts for all platforms, so that an installation from npm does
 * without it and the command downloads the part of this machine (cli/http-runtime.ts). A clone and an image have the package.
 */
import { createRequire } from 'node:module'

const file = process.env.WEFT_HTTP_LIBRARY

export const uWS: typeof import('uWebSockets.js') = file
  ? createRequire(import.meta.url)(file)
  : await import('uWebSockets.js')
