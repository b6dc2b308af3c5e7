/** Hooks that resolve what an application imports from Weft: packages that it lacks, and the bundle of LangGraph. */
import Module, { createRequire, type ResolveFnOutput, type ResolveHookContext, register } from 'node:module'
import type { HookData } from './resolve-hook.js'

/** Packages that an application may import from Weft if it has not installed them. */
const LENT = /^(@langchain\/|zod($|\/))/
const ours = createRequire(import.meta.url)

type Next = (specifier: string, context?: Partial<ResolveHookContext>) => ResolveFnOutput
type Resolve = (specifier: string, context: ResolveHookContext, next: Next) => ResolveFnOutput

/** `isLending`: the application lacks a package. `bundled`: URLs of modules, by those that they replace. */
export function resolveFromWeft(isLending: boolean, bundled: ReadonlyMap<string, string>): void {
  if (isLending) lendToRequire()
  else if (bundled.size === 0) return
  const { registerHooks } = Module as { registerHooks?(hooks: { resolve: Resolve }): void }
  // In this thread, since Node.js 22.15: a module costs no message to another one.
  if (registerHooks !== undefined) return registerHooks({ resolve: resolveHere(isLending, bundled) })
  register('../../../programs/resolve-hook.js', {
    parentURL: import.meta.url,
    data: { lent: isLending ? LENT.source : null, ours: import.meta.url, bundled } satisfies HookData,
  })
}

const resolveHere =
  (isLending: boolean, bundled: ReadonlyMap<string, string>): Resolve =>
  (specifier, context, next) => {
    const found = isLending ? resolveOrLend(specifier, context, next) : next(specifier, context)
    const url = bundled.get(found.url)
    return url === undefined ? found : { ...found, url }
  }

const resolveOrLend: Resolve = (specifier, context, next) => {
  try {
    return next(specifier, context)
  } catch (error) {
    if ((error as { code?: string }).code !== 'ERR_MODULE_NOT_FOUND' || !LENT.test(specifier)) throw error
    try {
      return next(specifier, { ...context, parentURL: import.meta.url })
    } catch {
      // The first error names the file of the application that imports the package.
      throw error
    }
  }
}

function lendToRequire(): void {
  const internals = Module as unknown as { _resolveFilename(request: string, ...rest: unknown[]): string }
  const original = internals._resolveFilename
  /** `ours.resolve` calls the function below: a package that Weft lacks, too, would be looked for without end. */
  let isLending = false
  internals._resolveFilename = function (request, ...rest) {
    try {
      return original.call(this, request, ...rest)
    } catch (error) {
      const isMissing = (error as { code?: string }).code === 'MODULE_NOT_FOUND' && LENT.test(request)
      if (isLending || !isMissing) throw error
      isLending = true
      try {
        return ours.resolve(request)
      } catch {
        throw error
      } finally {
        isLending = false
      }
    }
  }
}
