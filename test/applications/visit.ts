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
      const rows: Row[] = []
      for (const graph of graphsOf(folder)) rows.push({ graph, ...(await tour(server.url, graph, asks)) })
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
