/** Files that the pages load: style, scripts, fonts and the icon. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { build, transform } from 'esbuild'
import { root } from '../../cli/root.js'

/** Family in the style → package and file. Both are under the SIL Open Font License, whose text is put beside them. */
const FONTS = [
  { package: '@fontsource-variable/inter', file: 'inter-latin-wght-normal.woff2', name: 'inter.woff2' },
  {
    package: '@fontsource-variable/jetbrains-mono',
    file: 'jetbrains-mono-latin-wght-normal.woff2',
    name: 'mono.woff2',
  },
] as const

export interface Assets {
  style: string
  script: string
  /** Sets the colours before the first paint. */
  theme: string
  icon: string
}

/** `light-dark()` stays as it is. */
const BROWSERS = ['chrome123', 'firefox120', 'safari17.5']

const folder = join(root, 'scripts/guide/page')
/** The packages of the build are beside it: the npm package has the built guide, and not this program. */
const folderOf = (name: string): string => join(root, 'node_modules', name)

/** `put` writes a file and returns its name, which contains a hash of the content. */
export async function makeAssets(put: (name: string, bytes: string | Uint8Array) => string): Promise<Assets> {
  let style = ['house.css', 'page.css'].map(file => readFileSync(join(folder, file), 'utf8')).join('\n')
  const licenses: string[] = []
  for (const font of FONTS) {
    const place = folderOf(font.package)
    style = style.replace(
      `url("${font.name}")`,
      `url("${put(font.name, readFileSync(join(place, 'files', font.file)))}")`,
    )
    licenses.push(`${font.package}\n\n${readFileSync(join(place, 'LICENSE'), 'utf8').trim()}`)
  }
  licenses.push(`minisearch\n\n${readFileSync(join(folderOf('minisearch'), 'LICENSE.txt'), 'utf8').trim()}`)
  put('licenses.txt', `${licenses.join('\n\n')}\n`)
  const { code } = await transform(style, { loader: 'css', minify: true, target: BROWSERS })
  return {
    style: put('guide.css', code),
    script: put('guide.js', await bundled('page.ts')),
    theme: put('theme.js', await bundled('theme.ts')),
    icon: put('icon.svg', readFileSync(join(root, 'console/src/icon.svg'))),
  }
}

async function bundled(file: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [join(folder, file)],
    bundle: true,
    minify: true,
    write: false,
    format: 'iife',
    target: 'es2022',
    legalComments: 'none',
    logLevel: 'error',
  })
  return outputFiles[0]!.text
}
