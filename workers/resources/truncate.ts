/** POST /internal/truncate: empties the store between tests. Served only with WEFT_TEST=1. */

import type { Truncate } from '../../schemas/calls.js'
import { fail } from '../../schemas/errors.js'
import type { Step, Truncated } from '../../store/steps.js'
import type { Deps } from './context.js'
import { systemAssistantId } from './rows/assistant.js'
import { each } from './rows/record.js'

/** Fences runs that are being executed, because their rows are removed. */
export async function truncate({ store, config, link }: Deps, given: Truncate): Promise<void> {
  if (!config.test) throw fail('not_found')
  const wanted: [wanted: boolean | null | undefined, what: Truncated][] = [
    [given.threads, 'threads'],
    [given.checkpoint, 'checkpoints'],
    [given.runs, 'runs'],
    [given.assistants, 'assistants'],
    [given.store, 'items'],
  ]
  const what = wanted.flatMap(([is, what]) => (is ? what : []))
  const keep = given.assistants ? await systemAssistants(store) : []
  await store.apply(what.map((what): Step => ({ step: 'truncate', what, keep })))
  link.log.warn({ what }, 'the store was emptied')
}

/** The system assistants of the graphs that graph workers have announced. */
async function systemAssistants(store: Deps['store']): Promise<{ app: string; assistant_id: string }[]> {
  const found: { app: string; assistant_id: string }[] = []
  for await (const { app, body } of each(store, { kind: 'graph', sort: 'id', order: 'asc' }))
    found.push({ app, assistant_id: systemAssistantId((JSON.parse(body) as { graph_id: string }).graph_id) })
  return found
}
