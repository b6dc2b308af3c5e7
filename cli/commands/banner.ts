/** The text of `weft start` when it serves: the address, the graphs with their files, and an example that runs. */
import { resolve } from 'node:path'
import type { Description } from '../../schemas/description.js'

/** A graph as the graph worker reports it. */
export interface GraphReport {
  graph_id: string
  /** Why it could not be loaded. */
  error: string | null
  /** The keys of its input; absent when only a call would tell. */
  inputs?: string[]
}

export interface Banner {
  app: Description
  data: string
  url: string
  /** The address of the console; null: it is not served. */
  console: string | null
  graphs: readonly GraphReport[]
  /** Requests need a key. */
  keys: boolean
}

const SAMPLE = [{ role: 'user', content: 'Hello' }]

export function banner({ app, data, url, console, graphs, keys }: Banner): string {
  const files = Object.fromEntries(app.graphs.map(({ graph_id, path }) => [graph_id, path]))
  const width = Math.max(0, ...graphs.map(({ graph_id }) => graph_id.length))
  const rows = graphs.map(
    ({ graph_id, error }) =>
      `  ${error === null ? ' ' : '✗'} ${graph_id.padEnd(width)}  ${[files[graph_id], error?.split('\n')[0]].filter(Boolean).join('  ')}`,
  )
  const example = graphs.find(({ error }) => error === null)
  return `
Weft serves ${app.path}
at ${url} (data in ${resolve(data)}; Ctrl-C stops it)${console === null ? '' : `\nwith its console at ${console}`}
and its API described at ${url}/docs, its guide at ${url}/docs/guide

${rows.length > 0 ? `${rows.join('\n')}\n\n` : ''}${keys ? KEYS : ''}${example === undefined ? '' : exampleOf(url, example, keys)}`
}

const KEYS = 'Requests need a key: weft keys create NAME --scope run\n\n'

function exampleOf(url: string, { graph_id, inputs }: GraphReport, keys: boolean): string {
  const key = keys ? " -H 'x-api-key: KEY'" : ''
  const chat = inputs === undefined || inputs.includes('messages')
  const body = {
    assistant_id: graph_id,
    input: chat ? { messages: SAMPLE } : Object.fromEntries(inputs.map(key => [key, '…'])),
    ...(chat ? { stream_mode: 'messages-tuple' } : {}),
  }
  // A quote inside of a shell's quotes.
  const text = JSON.stringify(body).replaceAll("'", "'\\''")
  return `A streamed run${chat || inputs.length === 0 ? '' : ' (put values of your graph into its input)'}:
  curl -N ${url}/runs/stream${key} -d '${text}'

`
}
