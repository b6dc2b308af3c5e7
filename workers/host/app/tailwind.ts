/**
 * Style sheets of user interfaces that are written for Tailwind 4, by the `@tailwindcss/postcss` of the application. It looks
 * for class names in the files of the application's folder, except those that a .gitignore there names.
 */
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import type { Plugin } from 'esbuild'

/** At-rules that only Tailwind knows. */
const TAILWIND =
  /@(?:import\s+['"]tailwindcss\b|(?:apply|config|custom-variant|plugin|reference|source|tailwind|theme|utility|variant)\b)/

/** `folder`: that of the application. */
export const tailwind = (folder: string): Plugin => ({
  name: 'tailwind',
  setup({ onLoad }) {
    onLoad({ filter: /\.css$/, namespace: 'file' }, async ({ path }) => {
      const text = await readFile(path, 'utf8')
      if (!TAILWIND.test(text)) return null
      const contents = await processorOf(path, folder)(text, path)
      return { contents, loader: path.endsWith('.module.css') ? 'local-css' : 'css' }
    })
  },
})

type Processor = (text: string, from: string) => Promise<string>

function processorOf(file: string, folder: string): Processor {
  let main: string
  try {
    main = createRequire(file).resolve('@tailwindcss/postcss')
  } catch {
    throw new Error(`it is written for Tailwind 4: run npm install tailwindcss @tailwindcss/postcss in ${folder}`)
  }
  const load = createRequire(main)
  // Optimized, it needs no nested rules, which browsers learned later than all else that Tailwind uses.
  const plugin = load(main)({ base: folder, optimize: true })
  const postcss = load('postcss')
  return async (text, from) => (await postcss([plugin]).process(text, { from })).css
}
