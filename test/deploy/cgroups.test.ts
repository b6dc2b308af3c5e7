/** Limits by cgroups, on a folder with the files of one: the kernel gives a test no group of its own. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { readConfig } from '../../schemas/config.js'
import { type Cgroups, openCgroups } from '../../workers/deploy/process/cgroups.js'
import { sizeOf } from '../../workers/deploy/process/size.js'

function cgroup(t: Test, controllers = 'cpuset cpu io memory pids\n'): string {
  const folder = mkdtempSync(join(tmpdir(), 'weft-cgroup-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'cgroup.controllers'), controllers)
  return folder
}

t.test('a replica gets a group with its limits', async t => {
  const base = cgroup(t)
  const cgroups = openCgroups(base, '/data') as Cgroups
  const read = (...names: string[]) => readFileSync(join(...names), 'utf8')
  t.equal(read(base, 'cgroup.subtree_control'), '+cpu +memory +pids')
  t.equal(read(cgroups.folder, 'cgroup.subtree_control'), '+cpu +memory +pids')
  const groups = () => readdirSync(cgroups.folder).filter(name => name !== 'cgroup.subtree_control')
  const free = cgroups.confine(4711, { cpu: 1.5, memory_mb: 256, memory_low_mb: 128 })
  const [one] = groups()
  const at = join(cgroups.folder, one!)
  t.equal(read(at, 'cpu.max'), '150000 100000')
  t.equal(read(at, 'memory.max'), `${256 * 1024 ** 2}`)
  t.equal(read(at, 'memory.low'), `${128 * 1024 ** 2}`)
  t.equal(read(at, 'pids.max'), '4096')
  t.equal(read(at, 'cgroup.procs'), '4711')
  free()
  t.equal(read(at, 'cgroup.kill'), '1', 'what it has left behind is ended')
  cgroups.confine(4712, { cpu: null, memory_mb: null, memory_low_mb: null })
  const other = join(cgroups.folder, groups().find(name => name !== one)!)
  t.equal(read(other, 'cpu.max'), 'max 100000')
  t.equal(read(other, 'memory.max'), 'max')
  mkdirSync(join(cgroups.folder, '1.1'))
  openCgroups(base, '/data')
  t.notOk(groups().includes('1.1'), 'an empty group of an earlier process is removed')
  t.not((openCgroups(base, '/other') as Cgroups).folder, cgroups.folder)
})

t.test('why there are none', async t => {
  const reasonOf = (folder: string) => (openCgroups(folder, '/data') as { reason: string }).reason
  t.match(reasonOf(cgroup(t, 'cpu\n')), /no controller for memory, pids/)
  t.match(reasonOf(join(cgroup(t), 'absent')), /no controller for cpu, memory, pids/)
  const file = cgroup(t)
  mkdirSync(join(file, 'cgroup.subtree_control'))
  t.match(reasonOf(file), /EISDIR|illegal operation/)
})

t.test('the limits of a resource_spec', async t => {
  const limits = (spec: Parameters<typeof sizeOf>[0]) => sizeOf(spec, readConfig({})).limits
  t.same(limits(null), { cpu: null, memory_mb: null, memory_low_mb: null })
  t.same(limits({ cpu: 0.5, memory_mb: 128 }), { cpu: 1, memory_mb: 256, memory_low_mb: 128 })
  t.same(limits({ cpu_limit: 3, queue_cpu_limit: 2, memory_limit_mb: 512 }), {
    cpu: 2,
    memory_mb: 512,
    memory_low_mb: null,
  })
})
