/**
 * Which versions of Weft work together in one cluster. Two processes do when their protocols differ by one at most, so that
 * every role can be replaced while the others are of the version before or after.
 */
import typia, { type tags } from 'typia'

/**
 * The number of what processes say to each other: messages, rows, events. Raise it when a process of the version before would
 * misread one of them; a member that may be absent needs no new number.
 */
export const PROTOCOL = 1

/** A process that says nothing is of a version before there were numbers. */
const FIRST = 1

/** The description of a process by itself. */
export interface Build {
  /** The version of Weft. */
  version: string & tags.MaxLength<64>
  protocol: number & tags.Type<'uint32'>
}

/** The first question of an edge to a resource worker. */
export interface EdgeHello {
  weft: Build
}

export const isBuild = typia.createIs<Build>()
export const validateEdgeHello = typia.createValidate<EdgeHello>()

interface Party {
  /** The role with its article, for example "an edge". */
  what: string
  /** Undefined: it does not say. */
  weft: Build | undefined
}

const nameOf = ({ what, weft }: Party): string =>
  `${what} of ${weft === undefined ? 'an older Weft' : `Weft ${weft.version}`} (protocol ${weft?.protocol ?? FIRST})`

/** Why two processes cannot work together: one sentence; null: they can. */
export function skewOf(one: Party, other: Party): string | null {
  const distance = (one.weft?.protocol ?? FIRST) - (other.weft?.protocol ?? FIRST)
  if (Math.abs(distance) <= 1) return null
  const older = distance < 0 ? one : other
  return `${nameOf(one)} and ${nameOf(other)} do not work together: upgrade ${older.what} first, by one protocol at a time`
}
