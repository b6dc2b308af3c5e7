/** Module hook (its own thread): what an application cannot resolve from its folder is resolved from ours. */
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
    return next(specifier, { ...context, parentURL: ours })
  }
}
