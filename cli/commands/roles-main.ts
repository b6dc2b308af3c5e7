/**
 * The child process of `weft start`: runs the roles that its arguments name. Its settings arrive as its first message,
 * so that no secret is in its environment, which every process of the same user can read.
 */
import { sayLast } from '../say.js'
import { UserError } from '../user-error.js'
import { type Launch, type RoleName, runRoles } from './roles.js'

const { config, ...launch } = await new Promise<Launch>(resolve =>
  process.once('message', message => resolve(message as Launch)),
)
try {
  await runRoles(process.argv.slice(2) as RoleName[], Object.freeze(config), launch)
} catch (error) {
  sayLast((error as Error).message)
  process.exit(error instanceof UserError ? error.exitCode : 1)
}
