/**
 * The check that what a client sent is parsed by bus/decode.ts alone, which counts it before: where its bytes arrive, a
 * parser may only be in the files below, each with what it reads instead. And that who reads exact integers writes them:
 * JSON.stringify throws at a BigInt (schemas/exact.ts).
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../cli/root.js'
import { filesIn, linesOf } from './imports.js'

const PARSES = /\b(?:JSON\.parse|parseJson)\(|\.json\(\)|json\.loads\(/g
const WORKER = 'an answer of a worker'
const WRITTEN = 'what a resource worker has written'
const APP_HOST_COUNTS = 'what workers/host/app/auth.ts has counted'

const MAY_PARSE: { readonly [file: string]: string } = {
  'bus/decode.ts': 'this is the parser',
  'edge/control-key.ts': WORKER,
  'edge/deployed.ts': WORKER,
  'edge/keys.ts': WORKER,
  'edge/library.ts': WORKER,
  'edge/metrics.ts': WORKER,
  'edge/control/oauth-wait.ts': WORKER,
  'edge/control/oauth.ts': WORKER,
  'edge/system.ts': WORKER,
  'edge/control/upload.ts': WORKER,
  'edge/watch.ts': WORKER,
  'edge/protocols/v2-socket.ts': WORKER,
  'edge/protocols/v2.ts': WORKER,
  'edge/streams/thread-reader.ts': WORKER,
  'edge/http/refusal-log.ts': 'an error that this server answers',
  'edge/protocols/api-request.ts': 'an answer of the API',
  'workers/host/app/auth.ts': `a filter of a handler, and ${APP_HOST_COUNTS}`,
  'workers/host/app/store.ts': WRITTEN,
  'workers/host-python/weft_host/app/store.py': WRITTEN,
  'workers/host-python/weft_host/app/parameters.py': APP_HOST_COUNTS,
  'workers/host-python/weft_host/app/main.py': APP_HOST_COUNTS,
  'workers/host-python/weft_host/app/description.py': 'its description',
  'workers/host-python/weft_host/app/encryption.py': 'a value of the store',
  'workers/resources/protocols/v2.ts': 'rows of the store',
  'workers/resources/runs/rpc.ts': 'rows of the store',
}

const READS_EXACT = /\b(?:parseJson|parseLarge)\b/
const WRITES = /\bJSON\.stringify\(/g
const WRITERS = ['bus/', 'edge/', 'workers/resources/']

/** In these, any parser; in resource workers, one in a file whose handlers get the bytes of a body. */
const ROOMS: readonly [place: string, endings: string, where: RegExp][] = [
  ['bus/decode.ts', 'ts', /^/],
  ['edge/', 'ts', /^/],
  ['workers/host/app/', 'ts', /^/],
  ['workers/host-python/weft_host/app/', 'py', /^/],
  ['workers/resources/', 'ts', /\bbytesHandler\((async )?\(?bytes\b/],
]

/** The violations below `folder`, one line each: a parser in another file, and a file of the table without one. */
export function checkClientJson(folder: string = root): string[] {
  const broken: string[] = []
  const found = new Set<string>()
  for (const [place, ending, where] of ROOMS)
    for (const file of filesIn(folder, place.split('/')[0]!, ending).sort()) {
      if (!file.startsWith(place)) continue
      const source = readFileSync(join(folder, file), 'utf8')
      if (!where.test(source)) continue
      const lines = linesOf(source, PARSES)
      if (lines.length > 0) found.add(file)
      if (!Object.hasOwn(MAY_PARSE, file))
        for (const line of lines) broken.push(`${file}:${line}: what a client sent is parsed by bus/decode.ts only`)
    }
  for (const place of WRITERS)
    for (const file of filesIn(folder, place.split('/')[0]!, 'ts').sort()) {
      if (!file.startsWith(place)) continue
      const source = readFileSync(join(folder, file), 'utf8')
      if (!READS_EXACT.test(source)) continue
      for (const line of linesOf(source, WRITES))
        broken.push(`${file}:${line}: what was read with exact integers is written by jsonText of schemas/exact.ts`)
    }
  for (const file of Object.keys(MAY_PARSE))
    if (!found.has(file)) broken.push(`scripts/checks/client-json.ts: ${file} parses nothing`)
  return broken
}
