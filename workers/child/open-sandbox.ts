/** The sandbox of a program that starts code of applications, with the proxy that it may need (WEFT_HOST_SANDBOX). */
import type { Log } from '../../bus/log.js'
import type { Config } from '../../schemas/config.js'
import { openEgress } from './egress.js'
import { parseNetwork, publicRules } from './egress-rules.js'
import type { HostUser } from './process.js'
import { findSandbox, type Sandbox } from './sandbox.js'

export interface OpenSandbox {
  /** Null without WEFT_HOST_SANDBOX. */
  sandbox: Sandbox | null
  close(): void
}

interface Options {
  config: Pick<Config, 'host_sandbox' | 'host_network' | 'allow_hosts' | 'data'>
  user: HostUser | null
  /** Path of the Node.js of hosts. */
  node: string
  log: Log
  /**
   * Installs get what WEFT_HOST_NETWORK lists, like hosts. Without a list they need package registries all the same, and
   * nothing of this machine and its network.
   */
  installs?: boolean
}

/** Throws an Error with one sentence when there can be no such sandbox. */
export async function openSandbox({ config, user, node, log, installs = false }: Options): Promise<OpenSandbox> {
  const sandbox = findSandbox(config, user)
  const network = parseNetwork(config.host_network)
  if (sandbox === null && network !== 'on')
    throw new Error(
      'WEFT_HOST_NETWORK: code is kept from the network in a sandbox only; set WEFT_HOST_SANDBOX=bubblewrap, too',
    )
  if (sandbox === null) return { sandbox, close() {} }
  const rules = typeof network === 'string' && installs ? publicRules(config.allow_hosts) : network
  if (typeof rules === 'string') return { sandbox: { ...sandbox, network: rules }, close() {} }
  const { socket, close } = await openEgress(rules, user, log)
  return { sandbox: { ...sandbox, network: { socket, node } }, close }
}
