/** Where the links of a page lead: the documents link to files of the repository, the site is one flat folder. */
import { existsSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

export interface Links {
  /** Files below the root that the site contains as they are → their names there. */
  assets: Map<string, string>
  /** The address for a page in `file`; null: a file of the repository that is no page. Throws for an unknown target. */
  resolve(file: string, href: string, extension: '.html' | '.md'): string | null
}

const IMAGE = /\.(svg|png)$/

export function openLinks(root: string, names: ReadonlyMap<string, string>): Links {
  const assets = new Map<string, string>()
  return {
    assets,
    resolve(file, href, extension) {
      if (/^[a-z]+:/.test(href) || href.startsWith('#')) return href
      const [path = '', anchor] = href.split('#')
      const target = normalize(join(dirname(file), path))
        .replaceAll('\\', '/')
        .replace(/\/$/, '')
      const name = names.get(target) ?? names.get(`${target}/README.md`)
      if (name !== undefined) return `${name}${extension}${anchor === undefined ? '' : `#${anchor}`}`
      if (target === 'docs/decisions') return `decisions.html`
      if (!existsSync(join(root, target))) throw new Error(`${file} links to ${href}, which does not exist`)
      if (!IMAGE.test(target)) return null
      const asset = target.replace(/^docs\//, '').replaceAll('/', '-')
      assets.set(target, asset)
      return asset
    },
  }
}
