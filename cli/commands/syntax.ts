/**
 * Parses changed source files for `weft dev` without executing them: while one cannot be parsed, the last version that could
 * goes on serving.
 */
import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { promisify } from 'node:util'
import type { Loader, TransformFailure } from 'esbuild'

const LOADERS: { readonly [extension: string]: Loader } = {
  '.ts': 'ts',
  '.mts': 'ts',
  '.cts': 'ts',
  '.tsx': 'tsx',
  '.js': 'jsx',
  '.mjs': 'jsx',
  '.cjs': 'jsx',
  '.jsx': 'jsx',
}
const PYTHON_MS = 10_000
const PARSE = `import ast, sys
try:
    ast.parse(open(sys.argv[1], "rb").read(), sys.argv[1])
except SyntaxError as error:
    print(f"{error.lineno}: {error.msg}")`

/** Returns one sentence for a file that cannot be parsed. `python`: the interpreter of the application, if it has one. */
export async function syntaxFault(file: string, python: string | null): Promise<string | null> {
  if (!existsSync(file)) return null
  const extension = extname(file)
  if (Object.hasOwn(LOADERS, extension)) return javascriptFault(file, LOADERS[extension]!)
  return extension === '.py' && python !== null ? pythonFault(file, python) : null
}

async function javascriptFault(file: string, loader: Loader): Promise<string | null> {
  const { transform } = await import('esbuild')
  try {
    await transform(readFileSync(file, 'utf8'), { loader, logLevel: 'silent' })
    return null
  } catch (error) {
    const [first] = (error as TransformFailure).errors ?? []
    return first === undefined ? null : sentence(file, `${first.location?.line ?? 1}: ${first.text}`)
  }
}

async function pythonFault(file: string, python: string): Promise<string | null> {
  const parsed = promisify(execFile)(python, ['-c', PARSE, file], { timeout: PYTHON_MS })
  const { stdout } = await parsed.catch(() => ({ stdout: '' }))
  return stdout === '' ? null : sentence(file, stdout.trim())
}

const sentence = (file: string, what: string): string => `${file}:${what}`
