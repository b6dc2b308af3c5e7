/**
 * The Python of a deployment: an environment `.venv` beside langgraph.json, which is part of the artefact. It is made by
 * commands of the build, as its user and within its limits, unless `install_command` makes it.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import {
  type Base,
  baseInterpreter,
  interpreterIn,
  type PythonNeeds,
  stepsFor,
  wantedVersion,
} from '../../child/python-install.js'
import type { Uv } from '../../child/uv.js'
import { Fault } from '../fault.js'

/** The folder of the environment, in the folder of langgraph.json. */
const ENVIRONMENT = '.venv'

/** The Python that environments are made of: on PATH, of the version that the application asks for. Throws a Fault. */
export async function findBase(needs: PythonNeeds): Promise<Base> {
  return baseInterpreter(wantedVersion(needs)).catch(error => {
    throw new Fault(`install: ${(error as Error).message}`)
  })
}

/** The commands that make the environment, in their order. */
export const pythonSteps = (needs: PythonNeeds, base: Base, uv: Uv | null) =>
  stepsFor(needs, { base, target: join(needs.folder, ENVIRONMENT), editable: false, uv })

/** The interpreter of the environment. Throws a Fault when the commands of the user have made none. */
export function interpreterOf({ folder }: PythonNeeds): string {
  const file = interpreterIn(join(folder, ENVIRONMENT))
  if (!existsSync(file))
    throw new Fault(
      `install: there is no ${ENVIRONMENT}/bin/python beside langgraph.json, which runs the Python of the application: install_command must make it`,
    )
  return file
}
