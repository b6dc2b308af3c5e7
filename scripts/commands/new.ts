/** `weft new`: a folder with an application that runs without a key, from `examples/new`. */
import { cpSync, existsSync, mkdirSync, readdirSync, statSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { root } from '../root.js'
import { UserError } from '../user-error.js'

const OPTIONS = { python: { type: 'boolean' } } as const
/** npm leaves files of these names out of a package. */
const HIDDEN: { readonly [name: string]: string } = { gitignore: '.gitignore', env: '.env' }

/** Throws a UserError with one sentence; a folder that holds something is never changed. */
export function createApplication(args: string[]): void {
  const { positionals, values } = parse(args)
  const [name, extra] = positionals
  if (name === undefined || name === '' || extra !== undefined)
    throw new UserError('expected `weft new <folder> [--python]`; see `weft help`', 2)
  const folder = resolve(name)
  if (existsSync(folder) && !(statSync(folder).isDirectory() && readdirSync(folder).length === 0))
    throw new UserError(`${name} exists already; expected a new or an empty folder`, 2)
  const template = join(root, 'examples/new', values.python === true ? 'python' : 'typescript')
  try {
    mkdirSync(folder, { recursive: true })
    for (const file of readdirSync(template)) cpSync(join(template, file), join(folder, HIDDEN[file] ?? file))
  } catch (error) {
    throw new UserError(`${name} cannot be written: ${(error as Error).message}`)
  }
  const shown = relative(process.cwd(), folder) || '.'
  process.stdout.write(`created ${shown}: ${readdirSync(folder).sort().join(', ')}\n`)
  process.stdout.write(`start it: weft start --app ${shown}\n`)
}

function parse(args: string[]) {
  try {
    return parseArgs({ args, options: OPTIONS, allowPositionals: true })
  } catch (error) {
    throw new UserError(`${(error as Error).message.split('. ')[0]}; see \`weft help\``, 2)
  }
}
