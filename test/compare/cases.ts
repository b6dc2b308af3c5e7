/** The table of cases: one file for each family. */
import type { Case, Language } from './case.js'
import { assistants } from './cases/assistants.js'
import { config } from './cases/config.js'
import { crons } from './cases/crons.js'
import { generated } from './cases/generated.js'
import { interrupts } from './cases/interrupts.js'
import { items } from './cases/items.js'
import { joins } from './cases/joins.js'
import { kinds } from './cases/kinds.js'
import { multitask } from './cases/multitask.js'
import { routes } from './cases/routes.js'
import { runs } from './cases/runs.js'
import { state } from './cases/state.js'
import { streams } from './cases/streams.js'
import { threads } from './cases/threads.js'
import { values } from './cases/values.js'
import { wrong } from './cases/wrong.js'

const FAMILIES: { readonly [name: string]: readonly Case[] } = {
  assistants,
  config,
  crons,
  interrupts,
  items,
  joins,
  kinds,
  multitask,
  routes,
  runs,
  state,
  streams,
  threads,
  values,
  wrong,
}

export function casesOf(language: Language, seed: number): Case[] {
  return Object.entries({ ...FAMILIES, generated: generated(language, seed) }).flatMap(([family, cases]) =>
    cases
      .filter(one => (one.language ?? language) === language)
      .map(one => ({ ...one, name: `${family}/${one.name}` })),
  )
}
