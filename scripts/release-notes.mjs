// Prints the section of CHANGELOG.md for a version; what is pending when it has none yet.
import { readFileSync } from 'node:fs'

const [, , version] = process.argv
const text = readFileSync(new URL('../CHANGELOG.md', import.meta.url), 'utf8')
const sections = new Map(
  text
    .split(/^## /m)
    .slice(1)
    .map(section => {
      const end = section.indexOf('\n')
      return [section.slice(0, end).split(' ')[0], section.slice(end).trim()]
    }),
)
const found = sections.get(version) ?? sections.get('Pending')
if (found === undefined) throw new Error(`CHANGELOG.md has no section ${version} and none for what is pending`)
process.stdout.write(`${found}\n`)
