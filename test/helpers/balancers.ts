/** HAProxy and nginx with the configurations of deploy/balancers, in front of two edges on this machine. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { freePort } from '../../cli/ports.js'
import { root } from '../../cli/root.js'
import { spawnTied } from '../../cli/tied-process.js'
import { until } from './until.js'

export interface Balancer {
  name: string
  url: string
  /** How many edges it sends requests to; nginx has no checks and always says both. */
  edges(): Promise<number>
  stop(): Promise<void>
}

const PATH = `${process.env.PATH ?? ''}:/usr/sbin:/usr/local/sbin`
/** Whether the program is on this machine. */
export const hasBalancer = (name: 'haproxy' | 'nginx'): boolean =>
  spawnSync(name, ['-v'], { env: { PATH } }).error === undefined

/** The shipped file with the addresses of this machine. Throws when it names none of the addresses of the file. */
function configured(file: string, changes: readonly [from: string, to: string][]): string {
  let text = readFileSync(join(root, 'deploy/balancers', file), 'utf8')
  for (const [from, to] of changes) {
    if (!text.includes(from)) throw new Error(`${file} has no ${from}`)
    text = text.replaceAll(from, to)
  }
  return text
}

/** The addresses of two edges, each with its port. */
export type Edges = readonly [string, string]

const addresses = (own: string, edges: Edges): [from: string, to: string][] => [
  ['0.0.0.0:80', own],
  ['10.0.0.1:2024', edges[0]],
  ['10.0.0.2:2024', edges[1]],
]

/** Resolves when `isReady`; throws with what the program has said when it ends before. */
async function run(command: readonly string[], isReady: () => Promise<boolean>): Promise<() => Promise<void>> {
  const child = spawnTied(command, { env: { PATH }, stdio: ['pipe', 'pipe', 'pipe'] })
  let said = ''
  child.stderr!.on('data', part => (said += part))
  let isOver = false
  const over = new Promise<void>(done =>
    child.once('close', () => {
      isOver = true
      done()
    }),
  )
  await until(async () => isOver || (await isReady()))
  if (isOver) throw new Error(`${command[0]} has ended: ${said}`)
  return () => {
    child.stdin!.end()
    return over
  }
}

/** `folder`: for its files; the path of its socket must be short. `host`: its own address. */
export async function startHaproxy(folder: string, edges: Edges, host = '127.0.0.1'): Promise<Balancer> {
  const own = `${host}:${await freePort()}`
  const file = join(folder, 'haproxy.cfg')
  const socket = join(folder, 'admin.sock')
  writeFileSync(file, configured('haproxy.cfg', [...addresses(own, edges), ['/run/haproxy/admin.sock', socket]]))
  const edgesNow = () => upServers(socket)
  const stop = await run(['haproxy', '-db', '-f', file], async () => (await edgesNow().catch(() => 0)) === 2)
  return { name: 'HAProxy', url: `http://${own}`, edges: edgesNow, stop }
}

/** The servers that HAProxy sends requests to: those that its checks found ready. */
function upServers(path: string): Promise<number> {
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect(path, () => socket.write('show stat\n'))
    socket.on('data', part => (text += part))
    socket.once('error', reject)
    socket.once('close', () => resolve(text.split('\n').filter(line => /^edges,edge-\d,.*,UP,/.test(line)).length))
  })
}

export async function startNginx(folder: string, edges: Edges): Promise<Balancer> {
  const own = `127.0.0.1:${await freePort()}`
  for (const name of ['body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']) mkdirSync(join(folder, name))
  writeFileSync(join(folder, 'weft.conf'), configured('nginx.conf', addresses(own, edges)))
  const file = join(folder, 'nginx.conf')
  writeFileSync(
    file,
    `daemon off; worker_processes 1; pid ${folder}/nginx.pid; error_log ${folder}/error.log;
     ${process.getuid?.() === 0 ? 'user root;' : ''}
     events { worker_connections 1024; }
     http {
       access_log ${folder}/access.log;
       client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/fastcgi;
       uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
       include ${folder}/weft.conf;
     }`,
  )
  const url = `http://${own}`
  const answers = async () => (await fetch(`${url}/ok`).catch(() => null))?.ok === true
  const stop = await run(['nginx', '-e', `${folder}/error.log`, '-p', folder, '-c', file], answers)
  return { name: 'nginx', url, edges: async () => 2, stop }
}
