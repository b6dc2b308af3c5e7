/** Deployments may give a cluster the members that docs/deployments.md lists, and no other one of its API. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import ts from 'typescript'
import { root } from '../../../cli/root.js'
import type { ResourceSpec } from '../../../schemas/deployments.js'
import { policyOf, problemsOf } from '../../../workers/deploy/kubernetes/problems.js'

t.setTimeout(120_000)

const policy = policyOf({
  kubernetes_namespaces: 'default',
  kubernetes_service_accounts: 'models',
  image_labels: 'team, example.com/*',
})
const problems = (spec: object) =>
  problemsOf({ spec: spec as ResourceSpec, namespace: null, secret_references: [] }, policy)
const ofContainer = (container: object) => problems({ sidecars: [container] })
const ofVolume = (volume: object) => problems({ volumes: [volume] })

/** The API of a cluster, as the library of its objects has it. */
type Schema =
  | { kind: 'leaf'; values: readonly unknown[] }
  | { kind: 'list'; of: Schema }
  | { kind: 'object'; members: { [name: string]: Schema } }

const library = join(root, 'node_modules/kubernetes-models/v1')
const program = ts.createProgram(
  ['Container', 'Volume'].map(name => join(library, `${name}.d.ts`)),
  { module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, skipLibCheck: true },
)
const checker = program.getTypeChecker()

function schemaOf(name: string): Schema {
  const source = program.getSourceFile(join(library, `${name}.d.ts`))!
  const found = checker.getExportsOfModule(checker.getSymbolAtLocation(source)!).find(one => one.name === `I${name}`)!
  return read(checker.getDeclaredTypeOfSymbol(found))
}

const TEXTS = ['x', 'Always', 'Unconfined', 'RuntimeDefault', 'Unmasked', 'Bidirectional', 'HostToContainer', '/etc']
/** Keys of members that are maps. */
const KEYS = ['cpu', 'memory', 'nvidia.com/gpu', 'example.com/device']

function read(type: ts.Type): Schema {
  const parts = type.isUnion() ? type.types : [type]
  const objects = parts.filter(one => one.flags & ts.TypeFlags.Object)
  if (objects.length === 0) {
    const literals = parts.flatMap(one => (one.isStringLiteral() ? one.value : []))
    const isOf = (flag: ts.TypeFlags) => parts.some(one => one.flags & flag)
    const values = [
      ...literals,
      ...(isOf(ts.TypeFlags.String) ? TEXTS : []),
      ...(isOf(ts.TypeFlags.NumberLike) ? [0, 22] : []),
      ...(isOf(ts.TypeFlags.BooleanLike) ? [true, false] : []),
    ]
    if (values.length === 0) throw new Error(`a type of the library is not known: ${checker.typeToString(type)}`)
    return { kind: 'leaf', values }
  }
  const [one] = objects
  if (checker.isArrayType(one!))
    return { kind: 'list', of: read(checker.getTypeArguments(one as ts.TypeReference)[0]!) }
  const index = checker.getIndexInfoOfType(one!, ts.IndexKind.String)
  if (index !== undefined)
    return { kind: 'object', members: Object.fromEntries(KEYS.map(key => [key, read(index.type)])) }
  const members = checker.getPropertiesOfType(one!).map(member => {
    return [member.name, read(checker.getNonNullableType(checker.getTypeOfSymbol(member)))] as const
  })
  return { kind: 'object', members: Object.fromEntries(members) }
}

const SCHEMAS = { container: schemaOf('Container'), 'volumes[]': schemaOf('Volume') }

/** The paths that the document lists, with what its sentences add. */
const listed = new Set(paths())

function paths(): string[] {
  const [, block = ''] = /<!-- allowed -->\n```\n([^`]+)```/.exec(
    readFileSync(join(root, 'docs/deployments.md'), 'utf8'),
  )!
  const rows = block
    .trim()
    .split('\n')
    .flatMap(line => {
      const [at, names] = line.split(': ')
      return names!.split(' ').map(name => `${at}.${name}`)
    })
  const under = (at: string, names: string) => names.split(' ').map(name => `${at}.${name}`)
  const fields = (at: string) => [
    ...under(`${at}.fieldRef`, 'fieldPath apiVersion'),
    ...under(`${at}.resourceFieldRef`, 'containerName resource divisor'),
  ]
  const handler = (at: string) => [
    ...under(at, 'exec httpGet'),
    `${at}.exec.command[]`,
    ...under(`${at}.httpGet`, 'path port scheme httpHeaders[]'),
    ...under(`${at}.httpGet.httpHeaders[]`, 'name value'),
  ]
  return rows.flatMap(row => {
    if (row.endsWith('downwardAPI.items[]'))
      return [row, ...under(row, 'path mode fieldRef resourceFieldRef'), ...fields(row)]
    if (row.endsWith('.items[]')) return [row, ...under(row, 'key path mode')]
    if (row.endsWith('Probe'))
      return [
        ...[
          row,
          ...handler(row),
          ...under(row, 'tcpSocket grpc'),
          `${row}.tcpSocket.port`,
          ...under(`${row}.grpc`, 'port service'),
        ],
        ...under(row, 'initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold'),
      ]
    if (/\.(postStart|preStop)$/.test(row)) return [row, ...handler(row), `${row}.sleep`, `${row}.sleep.seconds`]
    if (row.endsWith('valueFrom.fieldRef')) return [row, ...fields(row.replace(/\.fieldRef$/, ''))]
    return [row]
  })
}

/** Members that have one harmless value, or some. */
const LIMITED: { [path: string]: (value: unknown) => boolean } = {
  'container.securityContext.privileged': value => value === false,
  'container.securityContext.allowPrivilegeEscalation': value => value === false,
  'container.securityContext.seccompProfile.type': value => value === 'RuntimeDefault',
  'container.restartPolicy': value => value === 'Always',
  'container.volumeMounts[].mountPropagation': value => value === 'None' || value === 'HostToContainer',
  // An image has no such name; nor has a host.
  'container.image': value => value === 'x',
  'volumes[].nfs.server': value => value !== '/etc',
}

/** Whether each path of the value is listed, and its value is one of the harmless ones. */
function isListed(value: unknown, at: string): boolean {
  if (Array.isArray(value)) return value.every(one => isListed(one, at))
  if (typeof value !== 'object' || value === null) return LIMITED[at]?.(value) ?? true
  return Object.entries(value).every(([name, one]) => {
    const inner = `${at}.${name}${Array.isArray(one) ? '[]' : ''}`
    return listed.has(inner) && isListed(one, inner)
  })
}

/** Objects with this path alone, for each path and value of the schema. */
function* single(schema: Schema): Generator<unknown> {
  if (schema.kind === 'leaf') yield* schema.values
  else if (schema.kind === 'list') for (const one of single(schema.of)) yield [one]
  else {
    yield {}
    for (const [name, member] of Object.entries(schema.members)) for (const one of single(member)) yield { [name]: one }
  }
}

function arbitrary(schema: Schema): fc.Arbitrary<unknown> {
  if (schema.kind === 'leaf') return fc.constantFrom(...schema.values)
  if (schema.kind === 'list') return fc.array(arbitrary(schema.of), { minLength: 1, maxLength: 2 })
  const names = Object.keys(schema.members)
  const unknown = fc.constantFrom('hostPath', 'extra', 'constructor', '__proto__')
  return fc
    .tuple(fc.subarray(names, { maxLength: Math.min(3, names.length) }), fc.option(unknown, { freq: 20 }))
    .chain(([some, extra]) =>
      fc.record(Object.fromEntries(some.map(name => [name, arbitrary(schema.members[name]!)]))).map(value => {
        if (extra !== null) Object.defineProperty(value, extra, { value: {}, enumerable: true })
        return value
      }),
    )
}

for (const [at, schema] of Object.entries(SCHEMAS)) {
  const check = at === 'container' ? ofContainer : ofVolume

  t.test(`each member of ${at} in the API of a cluster`, async t => {
    let accepted = 0
    let refused = 0
    const wrong: string[] = []
    for (const value of single(schema)) {
      const found = check(value as object)
      if (found.length === 0) accepted++
      else refused++
      if ((found.length === 0) !== isListed(value, at)) wrong.push(`${JSON.stringify(value)}: ${found.join()}`)
    }
    t.same(wrong, [])
    t.ok(accepted > 20 && refused > 20, `${accepted} are accepted, ${refused} are refused`)
  })

  t.test(`several members of ${at} at once`, async t => {
    const isAsListed = fc.property(
      arbitrary(schema),
      value => (check(value as object).length === 0) === isListed(value, at),
    )
    t.doesNotThrow(() => fc.assert(isAsListed, { numRuns: 3_000 }))
  })
}

t.test('each refusal names the member', async t => {
  const cases: [spec: object, sentence: RegExp][] = [
    [
      { sidecars: [{ securityContext: { procMount: 'Unmasked' } }] },
      /^resource_spec\.sidecars\[0\]\.securityContext\.procMount is not allowed in a cluster; docs/,
    ],
    [
      { sidecars: [{ securityContext: { seccompProfile: { type: 'Unconfined' } } }] },
      /securityContext\.seccompProfile\.type must be RuntimeDefault$/,
    ],
    [
      { init_containers: [{ securityContext: { windowsOptions: { hostProcess: true } } }] },
      /^resource_spec\.init_containers\[0\]\.securityContext\.windowsOptions is not/,
    ],
    [
      { sidecars: [{ ports: [{ containerPort: 1 }, { hostPort: 22 }] }] },
      /^resource_spec\.sidecars\[0\]\.ports\[1\]\.hostPort is not/,
    ],
    [
      { volumes: [{ name: 'a', emptyDir: {}, hostPath: { path: '/' } }] },
      /^resource_spec\.volumes\[0\]\.hostPath is not/,
    ],
    [{ volumes: [{ name: 'a', csi: { driver: 'x' } }] }, /^resource_spec\.volumes\[0\]\.csi is not/],
    [
      { volume_mounts: [{ mountPropagation: 'Bidirectional' }] },
      /^resource_spec\.volume_mounts\[0\]\.mountPropagation must be None or HostToContainer$/,
    ],
    [{ sidecars: [{ command: 'sh' }] }, /^resource_spec\.sidecars\[0\]\.command must be a list$/],
    [{ sidecars: [{ securityContext: 'x' }] }, /securityContext must be an object$/],
    [{ labels: { app: 'payments' } }, /^resource_spec\.labels: app must be one of the names of WEFT_IMAGE_LABELS$/],
    [
      { annotations: { 'sidecar.istio.io/inject': 'true' } },
      /^resource_spec\.annotations: sidecar\.istio\.io\/inject must/,
    ],
    [{ init_containers: [{ restartPolicy: 'Always' }] }, /^resource_spec\.init_containers\[0\]\.restartPolicy is not/],
  ]
  for (const [spec, sentence] of cases) {
    const found = problems(spec)
    t.equal(found.length, 1, JSON.stringify(spec))
    t.match(found[0], sentence)
  }
  t.same(problems({ labels: { team: 1, 'example.com/a': '' }, annotations: { 'example.com/b': {} } }), [])
})

t.test('a token of the cluster needs an account that the operator allows', async t => {
  const volumes = [{ name: 'a', projected: { sources: [{ serviceAccountToken: { path: 'token' } }] } }]
  t.match(problems({ volumes }), [/sources\[0\]\.serviceAccountToken is not allowed/])
  t.same(problems({ volumes, service_account_name: 'models' }), [])
  t.match(problems({ volumes, service_account_name: 'admin' }), [
    /must be one of WEFT_KUBERNETES_SERVICE_ACCOUNTS, not admin/,
  ])
})
