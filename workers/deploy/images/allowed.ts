/**
 * Allow-lists for free-form members of resource_spec: an engine is given nothing that is not listed, at no depth. A null is
 * an absent member, as elsewhere in resource_spec.
 */
import type { Config } from '../../../schemas/config.js'
import { IMAGE_REFERENCE, type ResourceSpec } from '../../../schemas/deployments.js'
import { isObject } from '../../../schemas/json.js'

/** `must`: what was expected there; null: the member is not listed. */
export interface Refusal {
  at: string
  must: string | null
}

/** Checks a value, which is not null; resolves to what is refused in it. */
export type Allowed = (value: unknown, at: string) => Refusal[]

const check =
  (isFine: (value: unknown) => boolean, must: string): Allowed =>
  (value, at) =>
    isFine(value) ? [] : [{ at, must }]

export const text = check(value => typeof value === 'string', 'a text')
export const flag = check(value => typeof value === 'boolean', 'true or false')
export const whole = check(value => Number.isSafeInteger(value) && (value as number) >= 0, 'a whole number')
export const textOrNumber = check(value => typeof value === 'string' || typeof value === 'number', 'a text or a number')
export const oneOf = (...values: (string | boolean)[]): Allowed =>
  check(value => values.includes(value as string), values.join(' or '))
export const matching = (pattern: RegExp, must: string): Allowed =>
  check(value => typeof value === 'string' && pattern.test(value), must)
/** A name or an address, with nothing that an engine could take for a further option. */
export const NFS_HOST = /^[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?$/
export const image = matching(IMAGE_REFERENCE, '[registry/]name[:tag][@sha256:digest]')

export const list =
  (each: Allowed): Allowed =>
  (value, at) =>
    Array.isArray(value) ? value.flatMap((one, i) => given(each, one, `${at}[${i}]`)) : [{ at, must: 'a list' }]

export const members =
  (allowed: { readonly [name: string]: Allowed }): Allowed =>
  (value, at) =>
    isObject(value)
      ? Object.entries(value).flatMap(([name, one]) => {
          const inner = `${at}.${name}`
          if (Object.hasOwn(allowed, name)) return given(allowed[name]!, one, inner)
          return one === null || one === undefined ? [] : [{ at: inner, must: null }]
        })
      : [{ at, must: 'an object' }]

const given = (allowed: Allowed, value: unknown, at: string): Refusal[] =>
  value === null || value === undefined ? [] : allowed(value, at)

/** One sentence for each. `unlisted`: what is said of a member that is not listed. */
export const sentencesOf = (refusals: readonly Refusal[], unlisted: string): string[] =>
  refusals.map(({ at, must }) => (must === null ? `${at} ${unlisted}` : `${at} must be ${must}`))

/** Refused values of the members of resource_spec that have a list. */
export const refusedIn = (
  spec: ResourceSpec | null,
  allowed: { readonly [name in 'volumes' | 'volume_mounts' | 'init_containers' | 'sidecars']: Allowed },
): Refusal[] =>
  Object.entries(allowed).flatMap(([name, one]) =>
    given(one, spec?.[name as keyof typeof allowed], `resource_spec.${name}`),
  )

/** Whether a deployment may have a label or an annotation of this name. */
export type LabelPolicy = (name: string) => boolean

/** WEFT_IMAGE_LABELS: other programs, which an engine or a cluster has, act on labels and annotations. */
export function labelPolicy({ image_labels }: Pick<Config, 'image_labels'>): LabelPolicy {
  const names = image_labels.split(',').flatMap(one => one.trim() || [])
  return name => names.some(one => (one.endsWith('*') ? name.startsWith(one.slice(0, -1)) : one === name))
}

export const labelProblems = (spec: ResourceSpec | null, isAllowed: LabelPolicy): string[] =>
  (['labels', 'annotations'] as const).flatMap(list =>
    Object.keys(spec?.[list] ?? {}).flatMap(name =>
      isAllowed(name) ? [] : [`resource_spec.${list}: ${name} must be one of the names of WEFT_IMAGE_LABELS`],
    ),
  )
