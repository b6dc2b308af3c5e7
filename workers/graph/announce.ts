/** A graph worker announces its graphs to the resource workers, when it starts and whenever they may have missed it. */
import type { Caller } from '../../bus/call.js'
import type { Link } from '../../bus/connect.js'
import type { Lifecycle } from '../../bus/lifecycle.js'
import type { Registration } from '../../schemas/announcements.js'
import { event, poolCall } from '../../schemas/subjects.js'

interface Announcer {
  caller: Caller
  link: Link
  life: Lifecycle
  registration: Registration
}

/**
 * Resolves when a resource worker has answered. Throws an Error when they are of another protocol, and ends the process
 * when they are so later.
 */
export async function keepAnnounced({ caller, link, life, registration }: Announcer): Promise<void> {
  await announce(caller, link, registration)
  const register = () =>
    announce(caller, link, registration).catch(err => {
      link.log.fatal({ err }, 'the cluster does not accept this graph worker any more; exiting')
      void life.stop().then(() => process.exit(2))
    })
  const started = link.subscribe(event('resources', 'started'), () => void register())
  life.push({ name: 'announcements to new resource workers', quiet: () => started.unsubscribe() })
  life.push({ name: 'announcements after a reconnect', quiet: link.onReconnect(() => void register()) })
}

/** Announces the graphs to the resource workers, until one has answered. Throws an Error when they are of another protocol. */
async function announce(caller: Caller, link: Link, registration: Registration): Promise<void> {
  const subject = poolCall(registration, 'assistants', 'register')
  const body = Buffer.from(JSON.stringify(registration))
  const { head } = await caller.callUntilAnswered(subject, { request_id: 'register' }, body, {
    timeout: 5_000,
    patience: 5_000,
    retryIf: ({ head }) => head.status >= 400 && head.code !== 'incompatible',
    onRetry(last) {
      const cause = last instanceof Error ? { err: last } : { code: last.head.code, detail: last.head.detail }
      link.log.warn(cause, 'the graphs could not be announced yet')
    },
  })
  if (head.code === 'incompatible') throw new Error(head.detail)
}
