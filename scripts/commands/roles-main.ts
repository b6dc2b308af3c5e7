/**
 * The child process of `weft start`: runs the roles that its arguments name. Its settings arrive as its first message,
 * so that no secret is in its environment, which every process of the same user can read.
 */
import type { Config } from '../../schemas/config.js'
import { UserError } from '../user-error.js'
import { type RoleName, runRoles } from './roles.js'

const config = await new Promise<Config>(resolve => process.once('message', message => resolve(message as Config)))
try {
  await runRoles(process.argv.slice(2) as RoleName[], Object.freeze(config))
} catch (error) {
  process.stderr.write(`weft: ${(error as Error).message}\n`)
  process.exit(error instanceof UserError ? error.exitCode : 1)
}
