/** Where the console is, and whether it is served. */
import { isLoopback } from '../schemas/loopback.js'
import type { Edge } from './context.js'

/** Null: it is not served. */
export const consoleAddress = (edge: Edge): string | null =>
  isOff(edge) || edge.application?.http.disabled.includes('meta') ? null : addressOf(edge)

export const addressOf = ({ config, application }: Edge): string =>
  `${config.console_url}${application?.http.mount_prefix ?? ''}/console`

/** The page lets whoever opens it do everything, so it needs what keeps others out. */
export const isOff = ({ config, application }: Edge): boolean =>
  !isLoopback(config.host) && !config.require_keys && application?.auth == null
