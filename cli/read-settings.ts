/** The settings of a command: variables and flags. */
import { type Config, readConfig } from '../schemas/config.js'
import { UserError } from './user-error.js'

/** Throws a UserError when one has a wrong value. */
export function readSettings(flags: Parameters<typeof readConfig>[1]): Config {
  try {
    return readConfig(process.env, flags)
  } catch (error) {
    if (error instanceof RangeError) throw new UserError(error.message, 2)
    throw error
  }
}
