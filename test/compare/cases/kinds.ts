/** Values that JSON does not have, from a graph into its state, a stream, an interrupt and the store. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../../cli/root.js'
import { type Call, type Case, get, type Language, STORED, stream, thread } from '../case.js'

const FILES: readonly [Language, string, RegExp][] = [
  ['python', 'kinds.py', /^ {4}"(.+)": lambda:/gm],
  ['javascript', 'kinds.mjs', /^ {2}'?([\w ]+?)'?: \(\) =>/gm],
]

const read = (language: Language, file: string): string =>
  readFileSync(join(root, 'test/apps/compare', language, file), 'utf8')

const PLACES: { readonly [place: string]: (kind: string) => readonly Call[] } = {
  state: () => STORED,
  custom: () => [],
  interrupt: () => STORED,
  store: kind => [get(`/store/items?namespace=compare.kinds&key=${encodeURIComponent(kind)}`)],
}
const MODES = ['values', 'updates', 'custom', 'tasks']

export const kinds: readonly Case[] = FILES.flatMap(([language, file, pattern]) =>
  [...read(language, file).matchAll(pattern)].flatMap(([, kind = '']) =>
    Object.entries(PLACES).map(([place, after]) => ({
      name: `${place}/${kind}`,
      language,
      calls: [thread(), stream('kinds', { input: { kind, place }, stream_mode: MODES }), ...after(kind)],
    })),
  ),
)
