/** Reads the application that --app names, for the launcher and for the edge. Graph hosts read it themselves. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { type AppConfig, AppConfigError, readAppConfig } from '../../schemas/application.js'
import { SETTINGS } from '../../schemas/config.js'
import { UserError } from '../user-error.js'

/** Throws a UserError with one sentence when the file is missing or wrong. */
export function readApplication(app: string): AppConfig {
  const path = descriptionFile(app)
  if (!existsSync(path) && !process.env.LANGSERVE_GRAPHS)
    throw new UserError(
      `there is no application at ${path}: expected a langgraph.json (--app path/to/langgraph.json)`,
      2,
    )
  const read = (file: string) => (existsSync(file) ? readFileSync(file, 'utf8') : null)
  try {
    return readAppConfig({ path, env: process.env, read })
  } catch (error) {
    if (error instanceof AppConfigError) throw new UserError(error.message, 2)
    throw error
  }
}

/** The application of an edge; null when none is named and the default is not there: its graphs are elsewhere. */
export function findApplication(app: string): AppConfig | null {
  const isNamed = app !== SETTINGS.app.default || process.env.LANGSERVE_GRAPHS !== undefined
  return isNamed || existsSync(descriptionFile(app)) ? readApplication(app) : null
}

/** The langgraph.json of --app, which names the file or its folder. */
export function descriptionFile(app: string): string {
  const path = resolve(app)
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ? join(path, 'langgraph.json') : path
}
