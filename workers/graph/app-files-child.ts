/** The program that finds the files of an application for a parent of another user (app-files.ts). */
import { type Find, findFiles } from './app-modules.js'

/** Its only message. */
export interface FoundFiles {
  files: string[]
  error?: string
}

process.once('disconnect', () => process.exit(1))
process.once('message', message => {
  findFiles(message as Find).then(
    files => process.send!({ files } satisfies FoundFiles),
    error => process.send!({ files: [], error: (error as Error).message } satisfies FoundFiles),
  )
})
