/** MCP by the conformance suite of the protocol, which needs Node.js 22 or newer: that of `./scripts/start`, or the one on PATH. */
import { execFile, execFileSync } from 'node:child_process'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { root } from '../../../cli/root.js'
import { basicServer } from '../../helpers/cluster.js'
import { sender } from '../../helpers/http.js'

t.setTimeout(120_000)
const SUITE = join(root, 'test', 'sdk', 'node_modules', '@modelcontextprotocol', 'conformance', 'dist', 'index.js')
/** The scenarios that Weft passes; the list of the others is beside this file. */
const PASSED = [
  'server-initialize',
  'ping',
  'tools-list',
  'tools-call-simple-text',
  'tools-call-error',
  'dns-rebinding-protection',
]

/** A Node.js that is new enough; null when there is none. */
function newestNode(): string | null {
  const cached = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'weft', 'node-24', 'bin', 'node')
  const isNew = (program: string) => {
    try {
      return Number(execFileSync(program, ['-p', 'process.versions.node.split(".")[0]']).toString()) >= 22
    } catch {
      return false
    }
  }
  return [process.env.WEFT_NEWEST_NODE, cached, 'node'].find(one => one !== undefined && isNew(one)) ?? null
}

const node = newestNode()
t.test('the scenarios of the suite', { skip: node === null ? 'there is no Node.js 22 or newer' : false }, async t => {
  const server = await basicServer()
  t.teardown(() => server.stop())
  const send = sender(server.url)
  // Tools that the suite calls by name.
  for (const [graph_id, name] of [
    ['echo', 'test_simple_text'],
    ['fail', 'test_error_handling'],
  ])
    t.equal((await send('POST', '/assistants', { graph_id, name })).status, 200)
  const expected = join(root, 'test', 'api', 'protocols', 'mcp-conformance.yml')
  const args = [SUITE, 'server', '--url', `${server.url}/mcp`, '--expected-failures', expected]
  const ended = await promisify(execFile)(node!, args, { timeout: 100_000 }).catch(failure => failure)
  const output = `${ended.stdout}${ended.stderr}`
  const summary = output.slice(output.indexOf('=== SUMMARY ==='))
  // The suite fails for a failure that is not expected, and for an expected one that does not occur.
  t.notOk(ended.code, summary)
  const passed = new Set([...output.matchAll(/✓ ([\w-]+): [1-9]\d* passed, 0 failed/g)].map(([, name]) => name))
  for (const name of PASSED) t.ok(passed.has(name), name)
})
