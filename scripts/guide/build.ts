/**
 * `npm run docs`: makes the guide in dist/guide from docs/, unless it was made from the same files. One flat folder with
 * relative addresses, which the edge serves below `/docs/guide` and any web server can serve.
 */
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { root } from '../../cli/root.js'
import { findPages, type Site } from './pages.js'

const target = join(root, 'dist/guide')
const MARK = '.built-from'

const site = findPages()
const wanted = sourcesHash(site)
const mark = join(target, MARK)
if (!existsSync(mark) || readFileSync(mark, 'utf8') !== wanted) {
  // The files appear together: they are made beside their place and then moved there.
  const folder = `${target}-${process.pid}`
  try {
    // Loaded when it is needed: `./scripts/start` runs this each time.
    const { writeSite } = await import('./site.js')
    await writeSite(site, folder)
    writeFileSync(join(folder, MARK), wanted)
    rmSync(target, { recursive: true, force: true })
    renameSync(folder, target)
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    process.stderr.write(`the guide cannot be built: ${(error as Error).message}\n`)
    process.exit(1)
  }
}

/** The hash of everything that the pages are made of. */
function sourcesHash({ names }: Site): string {
  const compiled = ['scripts/guide', 'edge/openapi', 'edge/routes.js', 'schemas/openapi.js'].flatMap(place =>
    place.endsWith('.js')
      ? [`dist/${place}`]
      : readdirSync(join(root, 'dist', place))
          .filter(file => file.endsWith('.js'))
          .map(file => `dist/${place}/${file}`),
  )
  const beside = ['docs', 'scripts/guide/page'].flatMap(place =>
    (readdirSync(join(root, place), { recursive: true }) as string[])
      .filter(file => extname(file) !== '')
      .map(file => join(place, file)),
  )
  const hash = createHash('sha256')
  for (const file of [...names.keys(), ...compiled, ...beside, 'package.json', 'package-lock.json'].sort())
    hash.update(`${file}\n`).update(readFileSync(join(root, file)))
  return hash.digest('hex')
}
