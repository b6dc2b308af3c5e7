/** Bundles of user interfaces: style sheets for Tailwind. The rest is tested in a browser (browser/ui.test.ts). */
import { mkdirSync, symlinkSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import t from 'tap'
import { unpack } from '../../schemas/packed.js'
import { bundleUi } from '../../workers/host/app/ui.js'

const require = createRequire(import.meta.url)
const postcss = dirname(createRequire(require.resolve('vite')).resolve('postcss/package.json'))

/** The interface of `@tailwindcss/postcss`: it writes a rule with what it was given, in place of the import. */
const TAILWIND = `
module.exports = ({ base, optimize }) => ({
  postcssPlugin: 'tailwind',
  OnceExit(root, { result, Rule, Declaration }) {
    root.walkAtRules('import', rule => rule.replaceWith(
      new Rule({ selector: '.made', nodes: [
        new Declaration({ prop: '--from', value: JSON.stringify([base, result.opts.from, optimize]) })] })))
  },
})
module.exports.postcss = true
`
const UI = {
  'ui.tsx': "import './plain.css'; import './tailwind.css'; export default { a: () => <p>one</p> }",
  'plain.css': '@import "./other.css"; .plain { color: red }',
  'other.css': '.other { color: blue }',
  'tailwind.css': '@import "tailwindcss";',
}

const bundled = async (folder: string) => {
  const bundle = await bundleUi({ folder, ui: { a: join(folder, 'ui.tsx') }, ui_shared: [] } as never, 'a')
  const { rest } = unpack(bundle!)
  return Buffer.from(rest).toString()
}

t.test('a style sheet for Tailwind is made by the package of the application, others are not', async t => {
  const folder = t.testdir({
    ...UI,
    node_modules: { '@tailwindcss': { postcss: { 'index.js': TAILWIND } } },
  })
  symlinkSync(postcss, join(folder, 'node_modules/postcss'))
  const css = await bundled(folder)
  const made = JSON.stringify([folder, join(folder, 'tailwind.css'), true])
  t.ok(css.includes(`.made{--from: ${made}`), css)
  t.match(css, /\.other\{color:#00f\}/)
  t.match(css, /\.plain\{color:red\}/)
})

t.test('without the package, the sentence has the command that installs it', async t => {
  const folder = t.testdir(UI)
  mkdirSync(join(folder, 'node_modules'))
  await t.rejects(bundled(folder), {
    message: new RegExp(`run npm install tailwindcss @tailwindcss/postcss in ${folder}`),
  })
})
