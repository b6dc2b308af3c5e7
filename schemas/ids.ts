/**
 * Tokens that may be part of a subject. Only `token()` makes one, so no user text ever becomes part of a subject.
 */
declare const brand: unique symbol
type Token<Kind extends string> = string & { readonly [brand]: Kind }
export type RunId = Token<'run'>
export type ThreadId = Token<'thread'>
export type Pool = Token<'pool'>
export type DeploymentId = Token<'deployment'>
/** One OAuth flow. */
export type AuthId = Token<'auth'>
/** One process that serves calls. */
export type Member = Token<'member'>

const TOKEN = /^[A-Za-z0-9_-]{1,64}$/
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** The value as a subject token; throws a RangeError on anything but 1–64 letters, digits, `_` or `-`. */
export function token<Kind extends string>(kind: Kind, value: string): Token<Kind> {
  if (!TOKEN.test(value)) throw new RangeError(`${kind} must be 1 to 64 letters, digits, "_" or "-"`)
  return value as Token<Kind>
}

/** True for a hyphenated UUID of any version, in either case. */
export const isUuid = (value: string): boolean => UUID.test(value)

/** Other spellings that clients may send: without hyphens, in braces, as a URN. */
const SPELLING = /^(?:urn:uuid:)?\{?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})\}?$/i

/** The UUID with hyphens and in lower case; null for what is none in any spelling. */
export function uuidOf(value: string): string | null {
  const groups = SPELLING.exec(value)
  return groups === null ? null : groups.slice(1).join('-').toLowerCase()
}

/** Like `uuidOf`, for a value that was validated as a UUID. */
export const canonicalId = (value: string): string => uuidOf(value) ?? value.toLowerCase()

/** Namespace of the ids of system assistants (docs/spec/assistants.md#system-assistants): uuid5(graph id, this). */
export const SYSTEM_ASSISTANT_NAMESPACE = '6ba7b821-9dad-11d1-80b4-00c04fd430c8'

/** Namespace of the ids of a cron's runs and threads: uuid5(cron id + slot, this), so that a repeat has the same id. */
export const CRON_NAMESPACE = 'b6f1c0a2-6f7e-5f0e-9b1d-0c8f3c1d2a47'

/** The application of every call without a deployment. */
export const BUILT_IN_APP = 'built-in'
