/** MCP by the conformance suite of the protocol, which needs Node.js 22 or newer: that of `./scripts/start`, or the one on PATH. */
import { execFile, execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { root } from '../../../cli/root.js'
import { basicServer } from '../../helpers/cluster.js'
import { sender } from '../../helpers/http.js'

t.setTimeout(120_000)
const SUITE = join(root, 'test', 'sdk', 'node_modules', '@modelcontextprotocol', 'conformance', 'dist', 'index.js')
/** By version, what Weft passes; the lists of the other scenarios are beside this file. */
const VERSIONS: { [version: string]: { arguments: string[]; scenarios: string[]; checks: string[] } } = {
  '2025-11-25': {
    arguments: ['--spec-version', '2025-11-25'],
    scenarios: [
      'server-initialize',
      'ping',
      'tools-list',
      'tools-call-simple-text',
      'tools-call-error',
      'dns-rebinding-protection',
    ],
    checks: [],
  },
  '2026-07-28': {
    arguments: ['--requirements', '2026-07-28'],
    scenarios: [
      'tools-list',
      'tools-call-simple-text',
      'tools-call-error',
      'dns-rebinding-protection',
      'http-header-validation',
      'server-sse-multiple-streams',
      'input-required-result-unsupported-methods',
    ],
    /** Some of `server-stateless` and `caching`, which have checks of what Weft does not serve, too. */
    checks: [
      'sep-2575-server-unsupported-version-error',
      'sep-2575-http-server-unsupported-version-400',
      'sep-2575-http-server-header-mismatch-400',
      'sep-2575-http-server-method-not-found-404',
      'sep-2575-http-server-error-jsonrpc-id',
      'sep-2549-tools-list-caching-hints',
    ],
  },
}

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
const skip = node === null ? 'there is no Node.js 22 or newer' : false
for (const [version, { arguments: chosen, scenarios, checks }] of Object.entries(VERSIONS))
  t.test(`the scenarios of ${version}`, { skip }, async t => {
    const server = await basicServer()
    t.teardown(() => server.stop())
    const send = sender(server.url)
    // Tools that the suite calls by name.
    for (const [graph_id, name] of [
      ['echo', 'test_simple_text'],
      ['fail', 'test_error_handling'],
    ])
      t.equal((await send('POST', '/assistants', { graph_id, name })).status, 200)
    const expected = join(root, 'test', 'api', 'protocols', `mcp-conformance-${version}.yml`)
    const results = t.testdir({})
    const args = [
      SUITE,
      'server',
      '--url',
      `${server.url}/mcp`,
      ...chosen,
      '--expected-failures',
      expected,
      '-o',
      results,
    ]
    const ended = await promisify(execFile)(node!, args, { timeout: 100_000 }).catch(failure => failure)
    const output = `${ended.stdout}${ended.stderr}`
    const summary = output.slice(output.indexOf('=== SUMMARY ==='))
    // The suite fails for a failure that is not expected, and for an expected one that does not occur.
    t.notOk(ended.code, summary)
    const passed = new Set([...output.matchAll(/✓ ([\w-]+): [1-9]\d* passed, 0 failed/g)].map(([, name]) => name))
    for (const name of scenarios) t.ok(passed.has(name), name)
    const succeeded = new Set(readdirSync(results).flatMap(folder => succeededIn(join(results, folder))))
    for (const id of checks) t.ok(succeeded.has(id), id)
  })

/** Ids of the checks of a scenario that succeeded. */
function succeededIn(folder: string): string[] {
  const all = JSON.parse(readFileSync(join(folder, 'checks.json'), 'utf8')) as { id: string; status: string }[]
  return all.flatMap(({ id, status }) => (status === 'SUCCESS' ? [id] : []))
}
