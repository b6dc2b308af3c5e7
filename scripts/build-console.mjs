/**
 * Builds console/ into dist/console, unless the bundle there was made from the same sources. The files appear together:
 * the bundle is made beside its place and then moved there.
 */
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const source = join(root, 'console')
const target = join(root, 'dist/console')
const mark = join(target, '.built-from')

const files = readdirSync(source, { recursive: true, withFileTypes: true })
  .filter(entry => entry.isFile())
  .map(entry => join(entry.parentPath, entry.name))
  .sort()
const hash = createHash('sha256')
for (const file of [...files, join(root, 'package-lock.json')]) hash.update(`${file}\n`).update(readFileSync(file))
const wanted = hash.digest('hex')

if (!existsSync(mark) || readFileSync(mark, 'utf8') !== wanted) {
  const made = `${target}-${process.pid}`
  // It takes 0.2 s of CPU time to load, and mostly there is nothing to build.
  const { build } = await import('vite')
  await build({ configFile: join(source, 'vite.config.mjs'), build: { outDir: made } })
  writeFileSync(join(made, '.built-from'), wanted)
  rmSync(target, { recursive: true, force: true })
  renameSync(made, target)
}
