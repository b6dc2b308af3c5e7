/** Which processes this resource worker serves: those of a version close to its own. */
import type { Link } from '../../bus/connect.js'
import { fail } from '../../schemas/errors.js'
import { type Build, skewOf } from '../../schemas/protocol.js'

/** Throws `incompatible` with one sentence, which both processes log. `weft` is undefined when the other does not say. */
export function acceptBuild({ build, log }: Pick<Link, 'build' | 'log'>, what: string, weft: Build | undefined): void {
  const skew = skewOf({ what, weft }, { what: 'a resource worker', weft: build })
  if (skew === null) return
  log.error({ what, weft }, skew)
  throw fail('incompatible', skew)
}
