/**
 * The objects of an API server of tests, and server-side apply: who owns which field, what becomes of fields that are no
 * longer applied, conflicts. Lists are one field each.
 */
export interface FakeObject {
  apiVersion: string
  kind: string
  metadata: {
    name: string
    namespace: string
    uid: string
    generation: number
    resourceVersion: string
    labels: { [name: string]: string }
    annotations?: { [name: string]: string }
    deletionTimestamp?: string
    deletionGracePeriodSeconds?: number
  }
  spec?: { [name: string]: unknown }
  data?: { [name: string]: string }
  immutable?: boolean
  status?: object
  [member: string]: unknown
}

/** An answer other than 2xx. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message)
  }
}

interface Stored {
  object: FakeObject
  /** Who has set a field last, by its path. */
  owners: Map<string, string>
}

export interface Objects {
  all(kind: string, namespace?: string): FakeObject[]
  find(kind: string, namespace: string, name: string): FakeObject | null
  apply(given: FakeObject, manager: string, force: boolean): FakeObject
  /** Sets one field for another manager, as a controller does. */
  set(object: FakeObject, path: string, value: unknown, manager: string): void
  put(object: Omit<FakeObject, 'metadata'> & { metadata: Partial<FakeObject['metadata']> }): FakeObject
  remove(object: FakeObject): void
}

export function openObjects(): Objects {
  const stored = new Map<string, Stored>()
  let version = 0
  const keyOf = (kind: string, namespace: string, name: string) => `${kind} ${namespace} ${name}`
  const touch = (object: FakeObject) => {
    object.metadata.resourceVersion = String(++version)
  }
  function put(given: Parameters<Objects['put']>[0]): FakeObject {
    const { name = '', namespace = '', labels = {}, ...more } = given.metadata
    const uid = `uid-${++version}`
    const metadata = { ...more, name, namespace, labels, uid, generation: 1, resourceVersion: '' }
    const object = { ...given, metadata } as FakeObject
    touch(object)
    stored.set(keyOf(object.kind, namespace, name), { object, owners: new Map() })
    return object
  }

  function apply(given: FakeObject, manager: string, force: boolean): FakeObject {
    const { kind, metadata } = given
    const found = stored.get(keyOf(kind, metadata.namespace, metadata.name))
    const { owners } = found ?? { owners: new Map<string, string>() }
    const wanted = fieldsOf(given)
    const before = found === undefined ? new Map<string, unknown>() : fieldsOf(found.object)
    const isOther = ([path, value]: [string, unknown]) => JSON.stringify(before.get(path)) !== JSON.stringify(value)
    if (found?.object.immutable === true && [...wanted].some(one => one[0].startsWith('data/') && isOther(one)))
      throw new Refusal(
        422,
        `${kind} "${metadata.name}" is invalid: data: Forbidden: field is immutable when it is set`,
      )
    const selector = [...wanted].filter(([path]) => path.startsWith('spec/selector/'))
    if (kind === 'Deployment' && found !== undefined && selector.some(isOther))
      throw new Refusal(422, `Deployment.apps "${metadata.name}" is invalid: spec.selector: field is immutable`)
    for (const one of wanted) {
      const owner = owners.get(one[0])
      if (owner !== undefined && owner !== manager && isOther(one) && !force)
        throw new Refusal(
          409,
          `Apply failed with 1 conflict: conflict with "${owner}": .${one[0].replaceAll('/', '.')}`,
        )
    }
    const object = found?.object ?? put({ apiVersion: given.apiVersion, kind, metadata: { ...metadata } })
    const next = stored.get(keyOf(kind, metadata.namespace, metadata.name))!
    for (const [path, owner] of owners)
      if (owner === manager && !wanted.has(path)) {
        setIn(object, path, undefined)
        owners.delete(path)
      }
    for (const [path, value] of wanted) {
      setIn(object, path, value)
      next.owners.set(path, manager)
    }
    if (found !== undefined && [...wanted].some(one => one[0].startsWith('spec/') && isOther(one)))
      object.metadata.generation++
    touch(object)
    return object
  }

  return {
    all: (kind, namespace) =>
      [...stored.values()]
        .map(({ object }) => object)
        .filter(one => one.kind === kind && (namespace === undefined || one.metadata.namespace === namespace)),
    find: (kind, namespace, name) => stored.get(keyOf(kind, namespace, name))?.object ?? null,
    apply,
    set(object, path, value, manager) {
      setIn(object, path, value)
      if (path.startsWith('spec/')) object.metadata.generation++
      stored.get(keyOf(object.kind, object.metadata.namespace, object.metadata.name))!.owners.set(path, manager)
      touch(object)
    },
    put,
    remove: ({ kind, metadata }) => void stored.delete(keyOf(kind, metadata.namespace, metadata.name)),
  }
}

/** Applied fields by path; a list is one field. */
function fieldsOf(object: object): Map<string, unknown> {
  const fields = new Map<string, unknown>()
  const walk = (value: unknown, path: string[]) => {
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      for (const [name, member] of Object.entries(value)) walk(member, [...path, name.replaceAll('/', '~1')])
    else fields.set(path.join('/'), value)
  }
  const { apiVersion: _, kind: __, metadata, status: ___, ...rest } = object as FakeObject
  walk({ ...rest, metadata: { labels: metadata.labels, annotations: metadata.annotations ?? {} } }, [])
  return fields
}

function setIn(object: object, path: string, value: unknown): void {
  const names = path.split('/').map(name => name.replaceAll('~1', '/'))
  const last = names.pop()!
  let at = object as { [name: string]: unknown }
  for (const name of names) {
    if (typeof at[name] !== 'object') at[name] = {}
    at = at[name] as { [name: string]: unknown }
  }
  if (value === undefined) delete at[last]
  else at[last] = structuredClone(value)
}
