/** Credentials of registries, from files in the form of Docker's config.json, and where an image comes from. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { AuthConfig } from 'dockerode'
import { Fault } from '../fault.js'

const HUB = 'https://index.docker.io/v1/'

/** `registry.example:5000/team/app:1` → `registry.example:5000`; null for Docker Hub. */
export function registryOf(image: string): string | null {
  const first = image.split('/')[0]!
  return image.includes('/') && (/[.:]/.test(first) || first === 'localhost') ? first : null
}

/**
 * The credentials for the registry of the image, of the named files in the folder, else of its config.json; undefined
 * when there are none. Throws a Fault for a name without a file.
 */
export async function credentialsFor(
  image: string,
  folder: string,
  names: readonly string[],
): Promise<AuthConfig | undefined> {
  const registry = registryOf(image)
  for (const name of [...names, 'config']) {
    const isNamed = name !== 'config'
    if (isNamed && (folder === '' || !/^[\w.-]+$/.test(name)))
      throw new Fault(`image pull: image_pull_secrets names ${name}; WEFT_DOCKER_AUTH has no file of that name`)
    if (folder === '') continue
    const file = join(folder, `${name}.json`)
    const text = await readFile(file, 'utf8').catch(() => null)
    if (text === null && isNamed)
      throw new Fault(`image pull: image_pull_secrets names ${name}; WEFT_DOCKER_AUTH has no file ${name}.json`)
    const found = text === null ? undefined : readAuth(text, registry, `${name}.json`)
    if (found !== undefined) return found
  }
  return undefined
}

function readAuth(text: string, registry: string | null, file: string): AuthConfig | undefined {
  let auths: { [registry: string]: { auth?: string } }
  try {
    auths = (JSON.parse(text) as { auths?: typeof auths }).auths ?? {}
  } catch {
    throw new Fault(`image pull: ${file} of WEFT_DOCKER_AUTH is no JSON`)
  }
  const serveraddress = [registry ?? HUB, `https://${registry ?? 'index.docker.io'}`].find(name => auths[name])
  const auth = serveraddress === undefined ? undefined : auths[serveraddress]?.auth
  if (serveraddress === undefined || auth === undefined) return undefined
  const [username = '', ...rest] = Buffer.from(auth, 'base64').toString().split(':')
  return { username, password: rest.join(':'), serveraddress }
}
