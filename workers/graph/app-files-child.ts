/** The program that finds the files of an application for a parent of another user (app-files.ts). */
import { text } from 'node:stream/consumers'
import { type Find, findFiles } from './app-modules.js'

/** The line that this program writes to stdout. */
export interface FoundFiles {
  files: string[]
  error?: string
}

const found = await text(process.stdin)
  .then(asked => findFiles(JSON.parse(asked) as Find))
  .then(
    (files): FoundFiles => ({ files }),
    (error: Error): FoundFiles => ({ files: [], error: error.message }),
  )
process.stdout.end(JSON.stringify(found))
