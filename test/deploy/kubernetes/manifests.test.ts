/** deploy/kubernetes-deployer: valid. That its rights are enough, the other files show. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { root } from '../../../cli/root.js'

const folder = join(root, 'deploy/kubernetes-deployer')

interface Manifest {
  apiVersion: string
  kind: string
}

t.test('the manifests of a deploy worker', async t => {
  const { resources } = parse(readFileSync(join(folder, 'kustomization.yaml'), 'utf8')) as { resources: string[] }
  t.same([...resources, 'kustomization.yaml'].sort(), readdirSync(folder).sort())
  for (const file of resources)
    for (const document of parseAllDocuments(readFileSync(join(folder, file), 'utf8'))) {
      const manifest = document.toJS() as Manifest
      const { apiVersion, kind } = manifest
      const models = (await import(`kubernetes-models/${apiVersion}/${kind}`)) as {
        [kind: string]: new (manifest: Manifest) => { validate(): void }
      }
      t.doesNotThrow(() => new models[kind]!(manifest).validate(), kind)
    }
})
