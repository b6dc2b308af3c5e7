// A hostile graph: it tries each way out of its host, and returns what it got.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { connect } from 'node:net'
import { Annotation, END, START, StateGraph } from '@langchain/langgraph'
import { Client } from '@langchain/langgraph-sdk'

const attempt = async work => {
  try {
    return { got: await work() }
  } catch (error) {
    return { refused: error.code ?? error.message }
  }
}
const open = port =>
  new Promise((done, failed) => {
    connect(port, '127.0.0.1')
      .once('connect', () => done('open'))
      .once('error', failed)
  })
/** The status of a URL, by the proxy: of a request, or of a connection to its host. */
const ask = (url, method) =>
  new Promise((done, failed) => {
    const { hostname, port } = new URL(process.env.HTTP_PROXY ?? 'http://127.0.0.1:1')
    const path = method === 'CONNECT' ? new URL(url).host : url
    const asked = request({ hostname, port, method, path, headers: { host: new URL(url).host } })
    asked.once('response', answer => answer.resume() && done(answer.statusCode))
    asked.once('connect', (answer, socket) => {
      if (answer.statusCode !== 200) return done(answer.statusCode)
      socket
        .once('data', data => done(`${data}`.split('\r\n')[0]))
        .write('GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n')
    })
    asked.once('error', failed).end()
  })
const node = async ({ paths = [], files = [], pid, port, urls = [] }) => ({
  seen: {
    lists: await Promise.all(paths.map(path => attempt(() => readdirSync(path)))),
    reads: await Promise.all(files.map(file => attempt(() => readFileSync(file, 'utf8').length))),
    writes: await Promise.all(
      ['./mine.txt', '/usr/mine.txt', '/etc/mine.txt', '/mine.txt', '/dev/mine.txt', '/home/mine.txt'].map(file =>
        attempt(() => writeFileSync(file, 'x')),
      ),
    ),
    own: await attempt(() => {
      writeFileSync('/tmp/own.txt', 'x')
      return readFileSync('/tmp/own.txt', 'utf8')
    }),
    pids: readdirSync('/proc').filter(name => /^\d+$/.test(name)).length,
    environments: readdirSync('/proc')
      .filter(name => /^\d+$/.test(name))
      .map(id => {
        try {
          return readFileSync(`/proc/${id}/environ`, 'utf8')
        } catch {
          return ''
        }
      })
      .join(),
    kill: await attempt(() => process.kill(pid, 'SIGKILL')),
    mount: await attempt(() => execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', '/usr'], { stdio: 'pipe' }).toString()),
    nested: await attempt(() => execFileSync('unshare', ['-U', 'true'], { stdio: 'pipe' }).toString()),
    port: await attempt(() => open(port)),
    loopback: await attempt(async () => (await new Client().assistants.search()).length),
    home: process.env.HOME,
    asked: await Promise.all(urls.flatMap(url => ['GET', 'CONNECT'].map(method => attempt(() => ask(url, method))))),
    // Older ones do not read the variables.
    fetched: /^v(22\.(2[1-9]|[3-9]\d)|2[4-9])\./.test(process.version)
      ? await Promise.all(urls.map(url => attempt(async () => (await fetch(url)).status)))
      : null,
  },
})
const state = Annotation.Root({
  paths: Annotation(),
  files: Annotation(),
  pid: Annotation(),
  port: Annotation(),
  urls: Annotation(),
  seen: Annotation(),
})
export const graph = new StateGraph(state).addNode('node', node).addEdge(START, 'node').addEdge('node', END).compile()
