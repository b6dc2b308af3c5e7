/** Module hook, in the hooks thread: resolves what an application imports from Weft (lending.ts), on Node.js before 22.15. */
import type { ResolveHook } from 'node:module'

export interface HookData {
  /** Source of the expression for packages that are lent; null: the application has all of them. */
  lent: string | null
  /** URL of a file of Weft. */
  ours: string
  bundled: ReadonlyMap<string, string>
}

let lent: RegExp | null = null
let ours = ''
let bundled: HookData['bundled'] = new Map()

export function initialize(data: HookData): void {
  lent = data.lent === null ? null : new RegExp(data.lent)
  ours = data.ours
  bundled = data.bundled
}

export const resolve: ResolveHook = async (specifier, context, next) => {
  const found = await resolveOrLend(specifier, context, next)
  const url = bundled.get(found.url)
  return url === undefined ? found : { ...found, url }
}

const resolveOrLend: ResolveHook = async (specifier, context, next) => {
  try {
    return await next(specifier, context)
  } catch (error) {
    if ((error as { code?: string }).code !== 'ERR_MODULE_NOT_FOUND' || lent?.test(specifier) !== true) throw error
    try {
      return await next(specifier, { ...context, parentURL: ours })
    } catch {
      // The first error names the file of the application that imports the package.
      throw error
    }
  }
}
