/** Trees of another user (workers/child/user-tree.ts): that user exchanges folders for links while root works in them. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import fs, {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { aside, checkOurs, findHostUser } from '../../workers/child/process.js'
import { readAs, readerFor } from '../../workers/child/user-file.js'
import { erase, give, keepReadOnly, makeFor, removeLeftovers } from '../../workers/child/user-tree.js'
import { PUBLIC_NODE } from '../helpers/public-node.js'

t.setTimeout(120_000)
const skip = process.getuid?.() === 0 ? false : 'needs root'
const user = skip === false ? findHostUser('nobody')! : null!

/** A folder of root with a tree `tree`, which is the user's where `owned`, and a closed folder of root, which links lead to. */
function scene(t: Test, owned = true) {
  const place = t.testdir()
  const [tree, closed] = [join(place, 'tree'), join(place, 'closed')]
  for (const folder of FOLDERS) mkdirSync(join(tree, folder), { recursive: true })
  for (const folder of FOLDERS) writeFileSync(join(tree, folder, 'file'), 'x')
  mkdirSync(join(closed, 'inner/deeper'), { recursive: true })
  for (const folder of ['', 'inner', 'inner/deeper'])
    writeFileSync(join(closed, folder, 'file'), 'secret', { mode: 0o600 })
  chmodSync(closed, 0o700)
  chmodSync(place, 0o755)
  if (owned) spawnSync('chown', ['-R', `${user.uid}:${user.gid}`, tree])
  const state = () =>
    (readdirSync(closed, { recursive: true }) as string[])
      .concat('.')
      .sort()
      .map(name => {
        const { uid, gid, mode } = lstatSync(join(closed, name))
        return `${name} ${uid} ${gid} ${mode.toString(8)}`
      })
  return { place, tree, closed, state, before: state() }
}
type Scene = ReturnType<typeof scene>
const FOLDERS = ['one', 'one/two', 'one/two/three', 'inner', 'inner/deeper', 'z']

/** Everything in the folder; links are not followed. */
const entriesOf = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true }).flatMap(one => {
    const path = join(folder, one.name)
    return one.isDirectory() ? [path, ...entriesOf(path)] : [path]
  })

/** The user puts links in the place of all folders whose name they can change, or takes them back. */
const LINK = `cd "$1" && for folder in ${FOLDERS.toReversed().join(' ')}; do
  [ -L $folder ] || { chmod 777 $folder; mv $folder $folder.was && ln -s "$2" $folder; }
done`
const UNDO = `cd "$1" && for folder in ${FOLDERS.join(' ')}; do
  [ -L $folder ] && rm $folder && mv $folder.was $folder
done`

/**
 * The user acts before each step of `work` on files: what is a folder in one step is a link in the next one. `n` is 0 or
 * 1: which of them comes first.
 */
async function between(n: number, { tree, closed }: Scene, work: () => Promise<unknown>): Promise<number> {
  const attacks = () =>
    spawnSync('/bin/sh', ['-c', n % 2 === 0 ? LINK : UNDO, 'sh', tree, closed], { ...aside(user), stdio: 'ignore' })
  const steps = ['lstat', 'stat', 'readdir', 'chmod', 'chown', 'lchown', 'rename', 'rm', 'open', 'readFile'] as const
  const originals = steps.map(name => [name, fs.promises[name]] as const)
  for (const [name, original] of originals)
    Object.assign(fs.promises, {
      [name](...args: never[]) {
        attacks()
        n++
        return (original as (...args: never[]) => unknown).apply(fs.promises, args)
      },
    })
  syncBuiltinESMExports()
  try {
    await work()
  } finally {
    Object.assign(fs.promises, Object.fromEntries(originals))
    syncBuiltinESMExports()
  }
  return n
}

for (const first of [0, 1]) {
  const when = first === 0 ? 'before the first step' : 'after the first step'
  t.test(`removing a tree follows no link that its user makes ${when}`, { skip }, async t => {
    const here = scene(t)
    const { tree, state, before } = here
    const steps = await between(first, here, () => erase(tree))
    t.ok(steps > 4, 'the user acted between the steps')
    t.same(state(), before)
    t.notOk(existsSync(tree))
  })

  t.test(`nor does keeping it, ${when}`, { skip }, async t => {
    const here = scene(t)
    const { tree, state, before } = here
    await between(first, here, () => keepReadOnly(tree, user))
    t.same(state(), before)
    for (const path of entriesOf(tree)) {
      const found = lstatSync(path)
      t.equal(found.uid, 0, path)
      if (!found.isSymbolicLink()) t.equal(found.mode & 0o7222, 0, path)
    }
  })

  t.test(`nor giving a tree to the user, ${when}`, { skip }, async t => {
    const here = scene(t, false)
    const { place, tree, state, before } = here
    chmodSync(place, 0o700)
    await between(first, here, () => give(user, tree))
    t.same(state(), before)
    t.equal(lstatSync(join(tree, 'one/two/three/file')).uid, user.uid)
    chmodSync(place, 0o711)
    await t.rejects(give(user, tree), /must be closed to others/)
  })
}

t.test('a tree is removed while its user changes it without a pause', { skip }, async t => {
  const { place, closed, state, before } = scene(t)
  const program = `
    import { mkdirSync, renameSync, rmSync, symlinkSync, unlinkSync } from 'node:fs'
    const attempt = work => { try { work() } catch {} }
    process.send('ready')
    for (;;) for (const folder of ['a', 'a/b', 'a/b/c']) {
      attempt(() => mkdirSync('tree/' + folder, { recursive: true }))
      attempt(() => renameSync('tree/' + folder, 'tree/was'))
      attempt(() => symlinkSync(${JSON.stringify(closed)}, 'tree/' + folder))
      attempt(() => unlinkSync('tree/' + folder))
      attempt(() => renameSync('tree/was', 'tree/' + folder))
    }`
  const options = { ...aside(user), cwd: place, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] as const }
  const child = spawn(PUBLIC_NODE, ['--input-type=module', '-e', program], options as never)
  await once(child, 'message')
  try {
    for (let n = 0; n < 300; n++) {
      await makeFor(user, join(place, 'tree'))
      for (const folder of ['inner', 'inner/deeper']) mkdirSync(join(place, 'tree', folder), { recursive: true })
      await erase(join(place, 'tree'))
    }
    t.equal(child.exitCode, null, 'the user was there all the time')
  } finally {
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  t.same(state(), before)
})

t.test('a tree that is deeper than any path', { skip }, async t => {
  const { place, tree } = scene(t)
  const name = 'a-folder-with-a-long-name'
  const dig = `for (let n = 0; n < 300; n++) { fs.mkdirSync('${name}'); process.chdir('${name}') }`
  const dug = spawnSync(PUBLIC_NODE, ['-e', dig], { ...aside(user), cwd: tree, encoding: 'utf8' })
  t.equal(dug.status, 0, dug.stderr)
  await erase(tree)
  t.same(readdirSync(place).sort(), ['closed'])
})

t.test('a second name of a file of somebody else is not kept', { skip }, async t => {
  const { tree, closed } = scene(t)
  // A system with fs.protected_hardlinks leaves this to root.
  fs.linkSync(join(closed, 'file'), join(tree, 'one/two/linked'))
  await t.rejects(keepReadOnly(tree, user), /linked does not belong to nobody/)
  t.equal(lstatSync(join(closed, 'file')).mode & 0o777, 0o600)
  const linked = join(tree, 'whole')
  symlinkSync(closed, linked)
  await t.rejects(keepReadOnly(linked, user), /is no folder/)
})

t.test('a folder of the user', { skip }, async t => {
  const { place } = scene(t)
  const home = join(place, 'home')
  await makeFor(user, home)
  t.match(lstatSync(home), { uid: user.uid, mode: 0o40700 })
  writeFileSync(join(home, 'cache'), '')
  await makeFor(user, home)
  t.ok(existsSync(join(home, 'cache')), 'is kept')
  fs.chownSync(home, 0, 0)
  await makeFor(user, home)
  t.notOk(existsSync(join(home, 'cache')), 'and replaced when it was that of another one')
  t.equal(lstatSync(home).uid, user.uid)
})

t.test('files are read as their user reads them', { skip }, async t => {
  const { place, tree, closed } = scene(t)
  const link = join(tree, 'link')
  symlinkSync(join(closed, 'file'), link)
  t.equal(await readAs(user, link), null)
  t.equal(await readAs(user, join(tree, 'one/file')), 'x')
  t.equal(await readAs(user, join(tree, 'missing')), null)
  t.equal(await readAs(null, link), 'secret')
  t.equal((await readAs(user, '/dev/zero'))?.length, 32 * 1024 ** 2, 'and end somewhere')
  writeFileSync(join(place, 'first'), join(tree, 'one/file'))
  const read = await readerFor(user, read => read(read(join(place, 'first'))!))
  t.equal(read!(read!(join(place, 'first'))!), 'x', 'one names the next one')
})

t.test('what root writes in lies below folders that the user cannot change', { skip }, async t => {
  const { place, tree } = scene(t)
  const check = (folder: string) => checkOurs(user, folder, 'WEFT_DATA')
  check(place)
  check('/tmp')
  mkdirSync(join(tree, 'data'))
  t.throws(() => check(join(tree, 'data')), {
    message: `WEFT_HOST_USER: nobody can exchange what is in ${tree}, where Weft writes as root; expected WEFT_DATA below folders that only root can change`,
  })
  const open = join(place, 'open')
  mkdirSync(join(open, 'data'), { recursive: true })
  symlinkSync(join(open, 'data'), join(place, 'short'))
  check(join(place, 'short'))
  chmodSync(open, 0o777)
  t.throws(() => check(join(place, 'short')), /can exchange what is in .*open/, 'also where a link leads')
  chmodSync(open, 0o1777)
  check(join(open, 'data'))
})

t.test('temporary folders of dead processes', async t => {
  const place = t.testdir({
    'x-old': { deep: { file: '' } },
    'x-young': {},
    'x-used': {},
    'other-old': {},
    'x-file': '',
  })
  for (const name of readdirSync(place)) if (name !== 'x-young') utimesSync(join(place, name), 0, 0)
  if (skip === false) {
    mkdirSync(join(place, 'x-foreign'))
    fs.chownSync(join(place, 'x-foreign'), user.uid, user.gid)
    utimesSync(join(place, 'x-foreign'), 0, 0)
  }
  await removeLeftovers(place, 'x-', async folder => folder.endsWith('used'))
  t.same(
    readdirSync(place).sort(),
    ['other-old', 'x-file', ...(skip === false ? ['x-foreign'] : []), 'x-used', 'x-young'],
    'only old folders of ours without an owner are removed',
  )
})
