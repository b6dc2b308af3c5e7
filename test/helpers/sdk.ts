/** The official JavaScript SDK in the lines we test against, as pinned in test/sdk/package.json. */
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Client } from '@langchain/langgraph-sdk'

/** The folder of package.json, wherever the build went. */
export function projectRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url))
  while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder)
  return folder
}

const require = createRequire(join(projectRoot(), 'test', 'sdk', 'package.json'))
type Sdk = { Client: new (options: { apiUrl: string }) => Client }

export const lines: { name: string; alias: string; connect(url: string): Client }[] = ['sdk1', 'sdk2'].map(alias => {
  const { version } = require(`${alias}/package.json`) as { version: string }
  const { Client } = require(alias) as Sdk
  return { name: `SDK ${version}`, alias, connect: url => new Client({ apiUrl: url }) }
})
