/** Programs of test/python, which check a server through a published Python client and print a line per check. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { root } from '../../cli/root.js'

/** The part of a `Test` of tap that is used here. */
interface Checks {
  pass(text: string): unknown
  fail(text: string, extra: { traceback: string }): unknown
  match(found: string, wanted: RegExp, text: string): unknown
}

/** Folder of the programs and of their requirements. */
export const pythonChecks = join(root, 'test', 'python')
const TIMEOUT_MS = 180_000

/** Runs one program to its end: each line "ok …" is a passed test, an exception a failed one with its traceback. */
export async function runChecks(
  t: Checks,
  python: string,
  file: string,
  env: { [name: string]: string },
): Promise<void> {
  const { error, stdout, stderr } = await new Promise<{ error: Error | null; stdout: string; stderr: string }>(done => {
    const options = { env: { ...process.env, ...env }, timeout: TIMEOUT_MS }
    execFile(python, [join(pythonChecks, file)], options, (error, stdout, stderr) => done({ error, stdout, stderr }))
  })
  for (const line of stdout.split('\n').filter(line => line.startsWith('ok '))) t.pass(line.slice(3))
  if (error !== null) {
    const lines = stderr.trimEnd().split('\n')
    t.fail(`${file}: ${lines.at(-1) || error.message}`, { traceback: lines.slice(-20).join('\n') })
  } else t.match(stdout, /\d+ checks/, file)
}
