/** The child process of `weft start`: runs the roles that its arguments name. Settings come by the environment. */
import { readConfig } from '../../schemas/config.js'
import { Sentence } from '../sentence.js'
import { type RoleName, runRoles } from './roles.js'

try {
  await runRoles(process.argv.slice(2) as RoleName[], readConfig(process.env))
} catch (error) {
  process.stderr.write(`weft: ${(error as Error).message}\n`)
  process.exit(error instanceof Sentence ? error.exitCode : 1)
}
