/** `weft build`: an image of an application, by docker or podman. */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { UserError } from '../user-error.js'
import { type DockerfileFlags, planImage } from './dockerfile.js'

interface BuildFlags extends DockerfileFlags {
  tag: string
  platform?: string
  pull?: true
}

/** `more`: arguments for the engine, as they are. */
export async function buildImage(
  more: readonly string[],
  { tag, platform, pull, ...flags }: BuildFlags,
): Promise<void> {
  const { context, dockerfile, ignored } = await planImage(flags)
  const engine = ['docker', 'podman'].find(name => spawnSync(name, ['--version'], { stdio: 'ignore' }).status === 0)
  if (engine === undefined)
    throw new UserError('neither docker nor podman is on PATH: install one, or use `weft dockerfile` where one is')
  const folder = mkdtempSync(join(tmpdir(), 'weft-build-'))
  try {
    const file = join(folder, 'Dockerfile')
    writeFileSync(file, dockerfile)
    // Docker finds it by its name; podman wants it named.
    writeFileSync(`${file}.dockerignore`, ignored)
    const isOwn = !existsSync(join(context, '.dockerignore'))
    if (!isOwn) rmSync(`${file}.dockerignore`)
    const args = [
      ...['build', '--file', file, '--tag', tag],
      ...(isOwn && isPodman(engine) ? ['--ignorefile', `${file}.dockerignore`] : []),
      ...(platform === undefined ? [] : ['--platform', platform]),
      ...(pull ? ['--pull'] : []),
      ...more,
      context,
    ]
    const child = spawn(engine, args, { stdio: 'inherit' })
    const code = await new Promise<number | null>(done => child.once('close', done))
    if (code !== 0) throw new UserError(`${engine} could not build the image: see its message above`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  process.stdout.write(`built ${tag}; start it: ${engine} run -p 2024:2024 -v weft:/data ${tag}\n`)
}

/** Some machines have podman under the name of docker. */
const isPodman = (engine: string): boolean =>
  /podman/i.test(spawnSync(engine, ['--version'], { encoding: 'utf8' }).stdout ?? '')
