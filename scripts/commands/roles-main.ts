/** The child process of `weft start`: runs the roles that its arguments name, with the settings of its environment. */
import { readConfig } from '../../schemas/config.js'
import { UserError } from '../user-error.js'
import { type RoleName, runRoles } from './roles.js'

try {
  await runRoles(process.argv.slice(2) as RoleName[], readConfig(process.env))
} catch (error) {
  process.stderr.write(`weft: ${(error as Error).message}\n`)
  process.exit(error instanceof UserError ? error.exitCode : 1)
}
