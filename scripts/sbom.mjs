// Prints the bill of materials of the built package as CycloneDX: its dependencies, the libraries whose code is in the
// bundles and in the pages, and what an installation downloads when it is needed. Tools of the build are left out.
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const read = path => readFileSync(`${root}/${path}`, 'utf8')

/** No dependency of the build: it would bring a native library that few machines can compile. */
const TOOL = '@cyclonedx/cyclonedx-npm@6.0.1'
/** npm finds peer dependencies of tools that do not fit: they are no part of the package. */
const FLAGS = [
  '--ignore-npm-errors',
  '--package-lock-only',
  '--output-reproducible',
  '--no-validate',
  '--flatten-components',
]
const listed = spawnSync('npx', ['--yes', TOOL, ...FLAGS], {
  cwd: root,
  encoding: 'utf8',
  env: { ...process.env, npm_config_ignore_scripts: 'true' },
  maxBuffer: 64 * 1024 * 1024,
})
if (listed.status !== 0) throw new Error(listed.stderr)
const bill = JSON.parse(listed.stdout)
// Its own libraries are newer on another day.
bill.metadata.tools.components = bill.metadata.tools.components.filter(({ name }) => name === 'cyclonedx-npm')

const nameOf = ({ group, name }) => (group ? `${group}/${name}` : name)
const isTool = ({ properties = [] }) => properties.some(({ name }) => name === 'cdx:npm:package:development')
const shipped = new Set(bill.components.filter(one => !isTool(one)).map(({ purl }) => purl))
const byName = new Map(bill.components.map(one => [`${nameOf(one)}@${one.version}`, one.purl]))

function ship(name, version) {
  const purl = byName.get(`${name}@${version}`)
  if (purl === undefined) throw new Error(`the lock file has no ${name} ${version}`)
  shipped.add(purl)
}

for (const [, name, version] of read('dist/programs/LICENSES.txt').matchAll(
  /^((?:@[\w.-]+\/)?[\w.-]+) (\d+\.\d+\S*) \(.*\)$/gm,
))
  ship(name, version)
const { http, typescript } = JSON.parse(read('workers/pinned-packages.json'))
for (const { name, version } of [http, typescript]) ship(name, version)

/** A library of the pages, with what it imports. */
const byRef = new Map(bill.components.map(one => [one['bom-ref'], one]))
const dependsOn = new Map(bill.dependencies.map(({ ref, dependsOn = [] }) => [ref, dependsOn]))
function shipWhole(ref, seen = new Set()) {
  if (seen.has(ref)) return
  shipped.add(byRef.get(ref).purl)
  for (const other of dependsOn.get(ref) ?? []) shipWhole(other, seen.add(ref))
}
const direct = new Map(dependsOn.get(bill.metadata.component['bom-ref']).map(ref => [nameOf(byRef.get(ref)), ref]))
for (const name of importedBy('console/src', 'scripts/guide/page')) if (direct.has(name)) shipWhole(direct.get(name))

function importedBy(...folders) {
  const files = folders.flatMap(folder =>
    readdirSync(`${root}/${folder}`, { recursive: true })
      .filter(path => /\.(tsx?|css)$/.test(path))
      .map(path => `${folder}/${path}`),
  )
  const imports = /(?:from|import) '((?:@[^/']+\/)?[^./'][^/']*)/g
  return new Set(files.flatMap(file => [...read(file).matchAll(imports)].map(([, name]) => name)))
}

const refs = new Map()
for (const { purl, 'bom-ref': ref } of bill.components) if (shipped.has(purl) && !refs.has(purl)) refs.set(purl, ref)
const kept = new Set([...refs.values(), bill.metadata.component['bom-ref']])
bill.components = bill.components
  .filter(one => kept.has(one['bom-ref']))
  // It is known from where the tool was started.
  .map(({ properties: _, ...one }) => one)
bill.dependencies = bill.dependencies
  .filter(({ ref }) => kept.has(ref))
  .map(({ ref, dependsOn = [] }) => ({
    ref,
    dependsOn: [...new Set(dependsOn.map(other => refs.get(byRef.get(other).purl) ?? other))].filter(one =>
      kept.has(one),
    ),
  }))
process.stdout.write(`${JSON.stringify(bill, null, 2)}\n`)
