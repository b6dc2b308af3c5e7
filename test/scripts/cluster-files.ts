/** The shipped cluster files, as Docker Compose and Kubernetes read them: programs with their arguments and variables. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parse, parseAllDocuments } from 'yaml'
import { root } from '../../cli/root.js'

export interface Program {
  name: string
  image: string
  args: string[]
  env: { [name: string]: string }
  /** Networks of Docker Compose. */
  networks: string[]
  /** Folders of this repository, by their path in the container. */
  folders: { [path: string]: string }
}

/** The value of a secret: a variable of .env, or a member of a Secret. Throws for one that is not there. */
export type SecretOf = (name: string) => string

const read = (path: string): string => readFileSync(join(root, path), 'utf8')

interface Service {
  image: string
  command?: string[]
  environment?: { [name: string]: string }
  networks?: string[]
  network_mode?: string
  volumes?: string[]
}

export const composeServices = (path: string): { [name: string]: Service } =>
  (parse(read(path), { merge: true }) as { services: { [name: string]: Service } }).services

/** The programs of a compose file. A service that uses the network of another has its networks. */
export function composePrograms(path: string, secretOf: SecretOf): Program[] {
  const services = composeServices(path)
  return Object.entries(services).map(([name, service]) => {
    const { image, command = [], environment = {}, network_mode, volumes = [] } = service
    const owner = network_mode === undefined ? service : services[network_mode.replace(/^service:/, '')]!
    const mounts = volumes.filter(text => text.startsWith('.')).map(text => text.split(':') as [string, string])
    return {
      name,
      image,
      args: command,
      env: mapValues(environment, text =>
        text.replaceAll(/\$\$|\$\{(\w+)(?::\?[^}]*)?\}/g, (_, secret?: string) => (secret ? secretOf(secret) : '$')),
      ),
      networks: owner.networks ?? ['default'],
      folders: Object.fromEntries(mounts.map(([from, to]) => [to, join(dirname(path), from)])),
    }
  })
}

export interface Manifest {
  apiVersion: string
  kind: string
  metadata: { name: string; namespace?: string }
  data?: { [name: string]: string }
  /** Data of a Secret. */
  stringData?: { [name: string]: string }
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what the schemas of Kubernetes have checked.
  spec?: any
}

interface Kustomization {
  resources?: string[]
  configMapGenerator?: { name: string; files: string[] }[]
}

/** The objects of a folder, as `kubectl kustomize` lists them: with those of the folders that it names. */
export function manifestsOf(folder: string): Manifest[] {
  const { resources = [], configMapGenerator = [] } = parse(read(`${folder}/kustomization.yaml`)) as Kustomization
  const made = configMapGenerator.map(({ name, files }) => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name },
    data: Object.fromEntries(files.map(file => [file, read(`${folder}/${file}`)])),
  }))
  const named = resources.flatMap(path =>
    path.endsWith('.yaml')
      ? parseAllDocuments(read(`${folder}/${path}`)).map(document => document.toJS() as Manifest)
      : manifestsOf(join(folder, path)),
  )
  return [...made, ...named]
}

/** The chart of deploy/helm is rendered by a program, which not every machine has. */
export const HELM = process.env.HELM ?? 'helm'
const isHelm = spawnSync(HELM, ['version']).status === 0
/** Options of a test that renders the chart. */
export const helmOptions = isHelm ? {} : { skip: 'no program helm on PATH, nor named by HELM' }

/** Arguments of helm that render the chart with the values of one of its files. */
export function templateArgs(file?: string): string[] {
  const chart = join(root, 'deploy/helm/weft')
  const flags = file === undefined ? [] : ['-f', join(chart, file)]
  // A helm that Go has installed knows no newer version than 1.20.
  return ['template', 'weft', chart, '--namespace', 'weft', '--kube-version', '1.33.0', ...flags]
}

/** The output of helm for the chart with these values, and those of a file of the chart. */
export const helmTemplate = (values: object, file?: string) =>
  spawnSync(HELM, [...templateArgs(file), '-f', '-'], { input: JSON.stringify(values), encoding: 'utf8' })

/** The objects of the chart; throws with what helm says. */
export function renderChart(values: object, file?: string): Manifest[] {
  const { status, stdout, stderr } = helmTemplate(values, file)
  if (status !== 0) throw new Error(stderr)
  return parseAllDocuments(stdout).flatMap(document => (document.toJS() as Manifest | null) ?? [])
}

interface Variable {
  name: string
  value?: string
  valueFrom?: { secretKeyRef?: { name: string; key: string }; fieldRef?: { fieldPath: string } }
}

/** The programs of Deployments, and one for each pod of a StatefulSet. */
export function kubernetesPrograms(manifests: readonly Manifest[], secretOf: SecretOf): Program[] {
  const settings = Object.fromEntries(
    manifests.filter(({ kind }) => kind === 'ConfigMap').map(({ metadata, data }) => [metadata.name, data!]),
  )
  return manifests
    .filter(({ kind }) => kind === 'Deployment' || kind === 'StatefulSet')
    .flatMap(({ kind, metadata, spec }) => {
      const [{ image, args, env = [], envFrom = [] }] = spec.template.spec.containers
      const pods =
        kind === 'Deployment'
          ? [metadata.name]
          : Array.from({ length: spec.replicas }, (_, i) => `${metadata.name}-${i}`)
      return pods.map(name => {
        const out: { [name: string]: string } = {}
        for (const { configMapRef } of envFrom) if (configMapRef) Object.assign(out, settings[configMapRef.name])
        for (const { name: variable, value, valueFrom } of env as Variable[]) {
          if (valueFrom?.secretKeyRef !== undefined) out[variable] = secretOf(valueFrom.secretKeyRef.key)
          else if (valueFrom?.fieldRef?.fieldPath === 'metadata.name') out[variable] = name
          // Only variables that stand before it are known.
          else out[variable] = value!.replaceAll(/\$\((\w+)\)/g, (text, other: string) => out[other] ?? text)
        }
        return { name, image, args, env: out, networks: [], folders: {} }
      })
    })
}

const mapValues = <T, U>(object: { [name: string]: T }, change: (value: T) => U): { [name: string]: U } =>
  Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value)]))
