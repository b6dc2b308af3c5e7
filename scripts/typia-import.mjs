import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const schemas = fileURLToPath(new URL('../schemas', import.meta.url))
/** schemas/problems.ts has them. */
const REPLACED = ['typia/lib/internal/_validateReport', 'typia/lib/internal/_createStandardSchema']

/**
 * A step of the build: removes `import typia from 'typia'` from what is emitted. The calls are gone by then, but the
 * import stays because it is the import of a value, and it loads 100 files: 40 ms of CPU time in every process. Validators
 * stop at the first errors.
 * @param {unknown} _program
 * @param {unknown} _options
 * @param {{ ts: typeof import('typescript') }} extras
 */
export default function typiaImport(_program, _options, { ts }) {
  /** @param {import('typescript').Statement} statement */
  const moduleOf = statement => (ts.isImportDeclaration(statement) ? statement.moduleSpecifier.text : '')
  return ({ factory }) =>
    file => {
      const path = relative(dirname(file.fileName), join(schemas, 'problems.js'))
      const own = factory.createStringLiteral(path.startsWith('.') ? path : `./${path}`)
      const statements = file.statements
        .filter(statement => moduleOf(statement) !== 'typia')
        .map(statement =>
          REPLACED.includes(moduleOf(statement))
            ? factory.updateImportDeclaration(
                statement,
                statement.modifiers,
                statement.importClause,
                own,
                statement.attributes,
              )
            : statement,
        )
      return factory.updateSourceFile(file, statements)
    }
}
