/** Reads the application that --app names, for the launcher and for the edge. Graph hosts read it themselves. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { AppConfig } from '../../schemas/application.js'
import { SETTINGS } from '../../schemas/config.js'
import { AppConfigError, type AppSource, type Description, readDescription } from '../../schemas/description.js'
import { UserError } from '../user-error.js'

/** The graphs that it names. Throws a UserError with one sentence when the file is missing or wrong. */
export const describeApplication = (app: string): Description => readWith(readDescription, app)

/**
 * The application of an edge; null when none is named and the default is not there: its graphs are elsewhere. Throws as
 * above. The launcher does not come here, because the validators are large.
 */
export async function findApplication(app: string): Promise<AppConfig | null> {
  const isNamed = app !== SETTINGS.app.default || process.env.LANGSERVE_GRAPHS !== undefined
  if (!isNamed && !existsSync(descriptionFile(app))) return null
  return readWith((await import('../../schemas/application.js')).readAppConfig, app)
}

function readWith<Read>(reader: (source: AppSource) => Read, app: string): Read {
  const path = descriptionFile(app)
  if (!existsSync(path) && !process.env.LANGSERVE_GRAPHS)
    throw new UserError(
      `there is no application at ${path}: expected a langgraph.json (--app path/to/langgraph.json)`,
      2,
    )
  const read = (file: string) => (existsSync(file) ? readFileSync(file, 'utf8') : null)
  try {
    return reader({ path, env: process.env, read })
  } catch (error) {
    if (error instanceof AppConfigError) throw new UserError(error.message, 2)
    throw error
  }
}

/** The langgraph.json of --app, which names the file or its folder. */
function descriptionFile(app: string): string {
  const path = resolve(app)
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ? join(path, 'langgraph.json') : path
}
