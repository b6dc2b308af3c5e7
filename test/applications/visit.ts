/** One application on one server: starts both, and takes the tour with each graph. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { startCluster } from '../helpers/cluster.js'
import type { Installed } from './install.js'
import { startModel } from './model/server.js'
import { startOfficial } from './official.js'
import type { Application } from './table.js'
import { type Passed, tour } from './tour.js'

type Asks = Pick<Application, 'calls' | 'asks'>

export interface Row extends Passed {
  graph: string
}

/** Answers a row for each graph. Throws when the server does not start. */
export async function visit({ folder, env }: Installed, asks: Asks = {}, official = false): Promise<Row[]> {
  const model = await startModel()
  try {
    const order = { app: folder, env: { ...env, ...model.env } }
    const server = await (official ? startOfficial(order) : startCluster(order))
    try {
      // docs/differences.md: its version 2.0.0 for JavaScript fails a run whose stream has `values` of subgraphs.
      const subgraphs = !official || env.WEFT_PYTHON !== undefined
      const rows: Row[] = []
      for (const graph of graphsOf(folder)) rows.push({ graph, ...(await tour(server.url, graph, asks, subgraphs)) })
      return rows
    } finally {
      await server.stop()
    }
  } finally {
    model.stop()
  }
}

const graphsOf = (folder: string): string[] =>
  Object.keys((JSON.parse(readFileSync(join(folder, 'langgraph.json'), 'utf8')) as { graphs: object }).graphs)
