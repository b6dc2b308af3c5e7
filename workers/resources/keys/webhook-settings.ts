/**
 * The webhook settings of an application's langgraph.json, as its graph workers announce it. The headers may hold
 * credentials, so they are encrypted at rest.
 */
import type { WebhookField, WebhookSettings, WebhookUrlRules } from '../../../schemas/webhooks.js'
import type { Store } from '../../../store/port.js'
import { openPoolSettings } from '../rows/pool-settings.js'
import type { KeyRing } from './ring.js'

/** The kind of the records; their member `sealed` is encrypted. */
export const WEBHOOKS = 'app_webhooks'
export const webhooksPlace = (id: string): string => `webhooks ${id}`

export interface WebhookRules {
  url: WebhookUrlRules
  disabled: boolean
  /** The members of the payload that are sent; null or absent: all. */
  fields?: readonly WebhookField[] | null
  /** The operator has written them: the application is no deployment. */
  by_operator?: boolean
}

export interface AppWebhooks {
  /** The settings of the pool that executes a run of the application. */
  rules(app: string, pool: string): Promise<WebhookRules>
  /** The headers of a delivery. Throws when no key opens them. */
  headers(app: string, pool: string): Promise<{ [name: string]: string }>
  announce(app: string, pool: string, settings: WebhookSettings | null, by_operator: boolean): Promise<void>
}

interface Stored extends WebhookRules {
  /** The headers as JSON; null: none. */
  sealed: string | null
}

export function openAppWebhooks(store: Store, ring: KeyRing): AppWebhooks {
  const settings = openPoolSettings<Stored>(store, WEBHOOKS)
  const placeOf = (app: string, pool: string) => webhooksPlace(`${app} ${pool}`)
  const open = (sealed: string, app: string, pool: string): string | null => {
    try {
      return ring.open(sealed, placeOf(app, pool))
    } catch {
      return null
    }
  }
  return {
    async rules(app, pool) {
      return (await settings.get(app, pool)) ?? { url: {}, disabled: false }
    },
    async headers(app, pool) {
      const sealed = (await settings.get(app, pool))?.sealed ?? null
      return sealed === null ? {} : (JSON.parse(ring.open(sealed, placeOf(app, pool))) as { [name: string]: string })
    },
    async announce(app, pool, announced, by_operator) {
      if (announced === null) return settings.announce(app, pool, null)
      const { headers, url, disabled, fields = null } = announced
      if (Object.keys(headers).length === 0 && Object.keys(url).length === 0 && !disabled && fields === null)
        return settings.announce(app, pool, null)
      const text = JSON.stringify(headers)
      // Each sealing gives another text: an unchanged one keeps its own.
      const known = (await settings.get(app, pool))?.sealed ?? null
      const kept = known !== null && open(known, app, pool) === text ? known : ring.seal(text, placeOf(app, pool))
      await settings.announce(app, pool, { url, disabled, fields, by_operator, sealed: text === '{}' ? null : kept })
    },
  }
}
