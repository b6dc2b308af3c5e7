/**
 * A step of the build: removes `import typia from 'typia'` from what is emitted. The calls are gone by then, but the
 * import stays because it is the import of a value, and it loads 100 files: 40 ms of CPU time in every process.
 * @param {unknown} _program
 * @param {unknown} _options
 * @param {{ ts: typeof import('typescript') }} extras
 */
export default function typiaImport(_program, _options, { ts }) {
  /** @param {import('typescript').Statement} statement */
  const isKept = statement => !(ts.isImportDeclaration(statement) && statement.moduleSpecifier.text === 'typia')
  return context => file => context.factory.updateSourceFile(file, file.statements.filter(isKept))
}
