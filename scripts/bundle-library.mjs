// Bundles the copy of LangGraph that Weft lends to applications, with what it needs, into one file of dist/programs/library/
// (docs/decisions/hosts/065). Beside it: a module for each entry of the packages, which re-exports its names, and table.json,
// which says what each one replaces (workers/host/library/bundled.ts).
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build } from 'esbuild'

const PACKAGES = [
  '@langchain/langgraph',
  '@langchain/core',
  '@langchain/langgraph-checkpoint',
  '@langchain/langgraph-sdk',
  'zod',
]
/** Parts for browsers, which import React. A graph that imports them has its own copy of them. */
const WITHOUT = /^\.\/(react|ui)/

/** The files of the ES modules that others may import from a package. */
function entriesOf(folder, { exports }) {
  const fileOf = found => (typeof found === 'object' ? fileOf(found?.import ?? found?.default ?? null) : found)
  return Object.entries(exports)
    .filter(([path]) => !WITHOUT.test(path))
    .map(([, found]) => fileOf(found))
    .filter(file => file !== null && /\.m?js$/.test(file) && !file.includes('*'))
    .map(file => join(folder, file))
}

/**
 * Writes the folder `to` and returns the metafile's outputs. `banner`: for libraries in CommonJS. The folder is moved into its
 * place when it is complete: a host that starts meanwhile finds the old one, the new one, or none, and then loads the
 * installed files.
 */
export async function bundleLibrary(root, to, banner) {
  const out = `${to}-new`
  rmSync(out, { recursive: true, force: true })
  mkdirSync(out, { recursive: true })
  const table = { packages: {} }
  const files = []
  for (const name of PACKAGES) {
    const folder = join(root, 'node_modules', name)
    const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    const modules = {}
    for (const file of new Set(entriesOf(folder, manifest))) {
      modules[file.slice(folder.length + 1)] = `${files.length}.js`
      files.push(file)
    }
    table.packages[name] = { version: manifest.version, modules }
  }
  const { metafile } = await build({
    absWorkingDir: root,
    stdin: {
      contents: files.map((file, i) => `export * as m${i} from ${JSON.stringify(file)}`).join('\n'),
      resolveDir: root,
    },
    outfile: join(out, 'library.js'),
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    legalComments: 'none',
    banner: { js: banner },
    metafile: true,
    logLevel: 'error',
  })
  const library = await import(pathToFileURL(join(out, 'library.js')).href)
  for (const i of files.keys()) {
    // Some names, as `catch`, cannot be those of variables.
    const names = Object.keys(library[`m${i}`]).map((name, n) => [name, `v${n}`])
    const lines = [
      `import { m${i} as m } from './library.js'`,
      `const { ${names.map(([name, local]) => `${name}: ${local}`).join(', ')} } = m`,
      `export { ${names.map(([name, local]) => `${local} as ${name}`).join(', ')} }`,
    ]
    writeFileSync(join(out, `${i}.js`), `${lines.join('\n')}\n`)
  }
  writeFileSync(join(out, 'table.json'), JSON.stringify(table))
  rmSync(to, { recursive: true, force: true })
  renameSync(out, to)
  return metafile.outputs
}
