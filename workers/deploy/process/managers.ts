/**
 * Package managers that this machine lacks. Corepack is not part of every Node.js, and npm always is: npm installs the
 * version that the repository names into the HOME of the deployment, and the commands of the build find it there.
 */
import { access, constants } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import type { HostUser } from '../../child/process.js'
import { readAs } from '../../child/user-file.js'

/** Where it is installed, and what npm installs there. */
export interface Missing {
  folder: string
  /** Holds the program. */
  bin: string
  package: string
}

interface Wanted {
  manager: string
  /** Folder of the lock file or package.json that selected it. */
  cwd: string
  /** `packageManager` of package.json; '' when absent. */
  declared: string
  env: { [name: string]: string | undefined }
  user: HostUser | null
  /** Its files are read in this folder only. */
  within?: string | undefined
}

/** Null when the manager is on PATH, or comes with Node.js. */
export async function findMissing({ manager, cwd, declared, env, user, within }: Wanted): Promise<Missing | null> {
  if (!Object.hasOwn(DEFAULTS, manager) || (await isOnPath(manager, env.PATH ?? ''))) return null
  const [, name, version] = /^([a-z]+)@(\d[\w.-]*)/.exec(declared) ?? []
  const wanted = packageOf(
    manager,
    name === manager ? version! : await DEFAULTS[manager]!(name => readAs(user, join(cwd, name), within)),
  )
  const folder = join(env.HOME ?? '', 'package-managers', wanted.replace(/[@/]/g, '_'))
  return { folder, bin: join(folder, 'node_modules/.bin'), package: wanted }
}

/** Yarn 2 and later has another package. */
const packageOf = (manager: string, version: string): string =>
  `${manager === 'yarn' && !/^[01](\.|$)/.test(version) ? '@yarnpkg/cli-dist' : manager}@${version}`

/** The major version that reads the lock file, where package.json names none. */
const DEFAULTS: {
  readonly [manager: string]: (read: (name: string) => Promise<string | null>) => Promise<string>
} = {
  async pnpm(read) {
    const [, format] = /^lockfileVersion: *'?(\d+)/m.exec((await read('pnpm-lock.yaml')) ?? '') ?? []
    return format === '5' ? '7' : format === '6' ? '8' : '10'
  },
  yarn: async read => (((await read('yarn.lock')) ?? '').includes('__metadata:') ? '4' : '1'),
  bun: async () => '1',
}

async function isOnPath(name: string, path: string): Promise<boolean> {
  for (const folder of path.split(delimiter))
    if (
      folder !== '' &&
      (await access(join(folder, name), constants.X_OK).then(
        () => true,
        () => false,
      ))
    )
      return true
  return false
}
