/** Module hook, in the hooks thread: packages that the application lacks are resolved from Weft's folder. */
import type { ResolveHook } from 'node:module'

let lent = /^$/
let ours = ''

export function initialize(data: { lent: string; ours: string }): void {
  lent = new RegExp(data.lent)
  ours = data.ours
}

export const resolve: ResolveHook = async (specifier, context, next) => {
  try {
    return await next(specifier, context)
  } catch (error) {
    if ((error as { code?: string }).code !== 'ERR_MODULE_NOT_FOUND' || !lent.test(specifier)) throw error
    try {
      return await next(specifier, { ...context, parentURL: ours })
    } catch {
      // The first error names the file of the application that imports the package.
      throw error
    }
  }
}
