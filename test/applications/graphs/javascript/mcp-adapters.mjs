// Tools of an MCP server, which is a child process of the graph's.
import { fileURLToPath } from 'node:url'
import { MultiServerMCPClient } from '@langchain/mcp-adapters'
import { ChatOpenAI } from '@langchain/openai'
import { createAgent } from 'langchain'

const args = [fileURLToPath(new URL('mcp-tools.mjs', import.meta.url))]
const client = new MultiServerMCPClient({ numbers: { transport: 'stdio', command: process.execPath, args } })

export const graph = async () =>
  createAgent({ model: new ChatOpenAI({ model: 'gpt-4o' }), tools: await client.getTools() })
