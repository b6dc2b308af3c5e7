/** The official JavaScript SDK in all tested lines, and other clients, as pinned in test/sdk/package.json. */
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Client } from '@langchain/langgraph-sdk'
import { root } from '../../cli/root.js'

/** Loads a client that test/sdk/package.json pins. */
export const load = createRequire(join(root, 'test', 'sdk', 'package.json'))
type Sdk = { Client: new (options: { apiUrl: string }) => Client }

export const lines: { name: string; alias: string; connect(url: string): Client }[] = ['sdk1', 'sdk2'].map(alias => {
  const { version } = load(`${alias}/package.json`) as { version: string }
  // Most files use one line: loading takes 0.08 s of CPU.
  const connect = (url: string) => new (load(alias) as Sdk).Client({ apiUrl: url })
  return { name: `SDK ${version}`, alias, connect }
})

/**
 * The lines of files that run on both stores: the oldest on MongoDB, the newest on the embedded store. The requests of a client
 * do not depend on the store, and each line executes the whole file.
 */
export const linesOnStore = process.env.WEFT_TEST_STORE ? lines.slice(0, 1) : lines.slice(-1)
