/** POST /internal/truncate: empties the store between tests. It is there with WEFT_TEST=1 and nowhere else. */
import { fail } from '../../schemas/errors.js'
import type { Truncate } from '../../schemas/truncate.js'
import type { RecordRow, Step, Truncated } from '../../store/port.js'
import { systemAssistantId } from './assistants.js'
import type { Deps } from './context.js'

const PAGE = 1_000

/** Runs that are being executed are fenced by it: their rows are gone. */
export async function truncate({ store, config, link }: Deps, given: Truncate): Promise<void> {
  if (!config.test) throw fail('not_found')
  if (given.store) throw fail('invalid', 'store: expected nothing, the item store is not available yet')
  const wanted: [wanted: boolean | null | undefined, what: Truncated][] = [
    [given.threads, 'threads'],
    [given.checkpoint, 'checkpoints'],
    [given.runs, 'runs'],
    [given.assistants, 'assistants'],
  ]
  const what = wanted.flatMap(([is, what]) => (is ? what : []))
  const keep = given.assistants ? await systemAssistants(store) : []
  await store.apply(what.map((what): Step => ({ step: 'truncate', what, keep })))
  link.log.warn({ what }, 'the store was emptied')
}

/** Of the graphs that graph workers have announced. */
async function systemAssistants(store: Deps['store']): Promise<{ app: string; assistant_id: string }[]> {
  const graphs: RecordRow[] = []
  for (let after: RecordRow | undefined; ; after = graphs.at(-1)) {
    const query = { kind: 'graph', sort: 'id', order: 'asc', limit: PAGE } as const
    const page = await store.records.list({ ...query, ...(after ? { after } : {}) })
    graphs.push(...page)
    if (page.length < PAGE) break
  }
  return graphs.map(({ app, body }) => ({
    app,
    assistant_id: systemAssistantId((JSON.parse(body) as { graph_id: string }).graph_id),
  }))
}
