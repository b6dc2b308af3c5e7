/** deploy/kubernetes-deployer: valid, and with the settings that exist. That its rights are enough, the other files show. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { SETTINGS } from '../../../schemas/config.js'
import { root } from '../../../scripts/root.js'

const folder = join(root, 'deploy/kubernetes-deployer')

interface Manifest {
  apiVersion: string
  kind: string
  spec?: { template?: { spec: { containers: { env: { name: string }[] }[] } } }
}

t.test('the manifests of a deploy worker', async t => {
  const { resources } = parse(readFileSync(join(folder, 'kustomization.yaml'), 'utf8')) as { resources: string[] }
  t.same([...resources, 'kustomization.yaml'].sort(), readdirSync(folder).sort())
  const variables = Object.values(SETTINGS).map(({ env }) => env) as string[]
  for (const file of resources)
    for (const document of parseAllDocuments(readFileSync(join(folder, file), 'utf8'))) {
      const manifest = document.toJS() as Manifest
      const { apiVersion, kind, spec } = manifest
      const models = (await import(`kubernetes-models/${apiVersion}/${kind}`)) as {
        [kind: string]: new (manifest: Manifest) => { validate(): void }
      }
      t.doesNotThrow(() => new models[kind]!(manifest).validate(), kind)
      for (const { env } of spec?.template?.spec.containers ?? [])
        for (const { name } of env) t.ok(variables.includes(name), name)
    }
})
