/** The package of an earlier Weft, made from its commit as `scripts/release` makes it, and unpacked. */
import { execFile } from 'node:child_process'
import { mkdir, readdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { root } from '../../cli/root.js'

const WEFT = 'dist/cli/weft.js'
const execute = promisify(execFile)
const git = async (...args: string[]) => (await execute('git', ['-C', root, ...args])).stdout.trim()

/**
 * While no release has a tag: the last commit with an older schema of the embedded store, before there were numbers of
 * protocols; and the first one of the package weft-server, which drains edges and has PostgreSQL.
 */
const BEFORE_TAGS = { embedded: 'cca720a8', cluster: 'b45e66f4' }

/** The commit of the last release, not of this one; null: this clone does not have it, being shallow. */
export async function earlierCommit(of: keyof typeof BEFORE_TAGS = 'embedded'): Promise<string | null> {
  const tag = await git('describe', '--tags', '--abbrev=0', '--match=v*', 'HEAD^').catch(() => BEFORE_TAGS[of])
  return git('rev-parse', '--verify', `${tag}^{commit}`).catch(() => null)
}

/** Builds the commit below the folder with the installed npm packages; resolves to the command `weft` of its package. */
export async function packageOf(commit: string, folder: string): Promise<string> {
  const [source, installed] = [join(folder, 'source'), join(folder, 'installed')]
  for (const each of [source, installed]) await mkdir(each)
  const archive = join(folder, 'source.tar')
  await git('archive', `--output=${archive}`, commit)
  await execute('tar', ['--extract', `--file=${archive}`, `--directory=${source}`])
  for (const each of [source, installed]) await symlink(join(root, 'node_modules'), join(each, 'node_modules'))
  await execute(process.execPath, ['scripts/build.mjs'], { cwd: source })
  await execute('npm', ['pack', '--silent', '--ignore-scripts', `--pack-destination=${folder}`], { cwd: source })
  const [file = ''] = (await readdir(folder)).filter(name => name.endsWith('.tgz'))
  const into = ['--strip-components=1', `--directory=${installed}`]
  await execute('tar', ['--extract', `--file=${join(folder, file)}`, ...into])
  return join(installed, WEFT)
}

/** Installs the package file of a release below the folder, with its own npm packages; resolves to its command `weft`. */
export async function installPackage(file: string, folder: string): Promise<string> {
  await writeFile(join(folder, 'package.json'), '{ "private": true }')
  await execute('npm', ['install', '--silent', '--no-audit', '--no-fund', '--ignore-scripts', file], { cwd: folder })
  return join(folder, 'node_modules/weft-server', WEFT)
}
