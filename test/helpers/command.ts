/** The command `weft`, run to its end. */
import { once } from 'node:events'
import { spawnWeft } from './cluster.js'

export interface Ended {
  /** null when a signal ended it. */
  code: number | null
  stdout: string
  stderr: string
  /** stdout as one JSON document. */
  json(): unknown
}

/** `program`: of another version. */
export async function runWeft(
  args: string[],
  env: { [name: string]: string | undefined } = {},
  program?: string,
): Promise<Ended> {
  const child = spawnWeft(args, env, program)
  let stdout = ''
  let stderr = ''
  child.stdout!.on('data', part => (stdout += part))
  child.stderr!.on('data', part => (stderr += part))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stdout, stderr, json: () => JSON.parse(stdout) }
}
