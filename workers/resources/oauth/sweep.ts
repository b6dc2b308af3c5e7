/** Removes flows that have expired, tokens that have expired and cannot be refreshed, and old audit entries. */

import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { removeToken } from './refresh.js'
import { EVENT, FLOW, parse, TOKEN, type TokenBody } from './rows.js'

const PAGE = 500

export async function sweepOauth(deps: Deps): Promise<void> {
  for (const kind of [FLOW, EVENT, TOKEN])
    for (;;) {
      const due = await deps.store.records.due(kind, clock.now(), PAGE)
      for (const row of due)
        if (kind === TOKEN) await removeToken(deps, parse<TokenBody>(row), 'expired')
        else await deps.store.apply([{ step: 'records.remove', kind, id: row.id, where: { rev: row.rev } }])
      if (due.length < PAGE) break
    }
}
