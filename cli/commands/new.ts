/** `weft new`: a folder with an application that runs without a key, from `examples/new`. */
import { cpSync, mkdirSync, readdirSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { isNewOrEmpty } from '../data-folder.js'
import { root } from '../root.js'
import { printJson } from '../terminal/text.js'
import { UserError } from '../user-error.js'

/** npm leaves files of these names out of a package. */
const HIDDEN: { readonly [name: string]: string } = { gitignore: '.gitignore', env: '.env' }

/** Throws a UserError with one sentence; a folder that holds something is never changed. */
export function createApplication(name: string, { python, json }: { python?: true; json?: true }): void {
  const folder = resolve(name)
  if (!isNewOrEmpty(folder)) throw new UserError(`${name} exists already; expected a new or an empty folder`, 2)
  const template = join(root, 'examples/new', python === true ? 'python' : 'typescript')
  try {
    mkdirSync(folder, { recursive: true })
    for (const file of readdirSync(template)) cpSync(join(template, file), join(folder, HIDDEN[file] ?? file))
  } catch (error) {
    throw new UserError(`${name} cannot be written: ${(error as Error).message}`)
  }
  const shown = relative(process.cwd(), folder) || '.'
  const files = readdirSync(folder).sort()
  if (json === true) return printJson({ folder, files })
  process.stdout.write(`created ${shown}: ${files.join(', ')}\n`)
  process.stdout.write(`start it: weft dev --app ${quoted(shown)}\n`)
}

/** Quotes the text as one word of a shell. */
const quoted = (text: string): string => (/^[\w./:@%+,=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`)
