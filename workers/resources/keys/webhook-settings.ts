/**
 * The webhook settings of an application's langgraph.json, as its graph workers announce it. The headers may hold
 * credentials, so they are encrypted at rest.
 */
import type { WebhookSettings } from '../../../schemas/webhooks.js'
import type { AppSettings, SettingKind, StoredWebhooks, WebhookRules } from '../rows/app-settings.js'
import type { KeyRing } from './ring.js'

/** The kind of the records; their member `sealed` is encrypted. */
export const WEBHOOKS = 'app_webhooks' satisfies SettingKind
export const webhooksPlace = (id: string): string => `webhooks ${id}`

interface WebhookDeps {
  settings: AppSettings
  ring: KeyRing
}

const placeOf = (app: string, pool: string) => webhooksPlace(`${app} ${pool}`)

/** The settings of the pool that executes a run of the application. */
export const webhookRules = async (
  { settings }: Pick<WebhookDeps, 'settings'>,
  app: string,
  pool: string,
): Promise<WebhookRules> => (await settings.get(WEBHOOKS, app, pool)) ?? { url: {}, disabled: false }

/** The headers of a delivery. Throws when no key opens them. */
export async function webhookHeaders(
  { settings, ring }: WebhookDeps,
  app: string,
  pool: string,
): Promise<{ [name: string]: string }> {
  const sealed = (await settings.get(WEBHOOKS, app, pool))?.sealed ?? null
  return sealed === null ? {} : (JSON.parse(ring.open(sealed, placeOf(app, pool))) as { [name: string]: string })
}

/** The announced settings as they are stored; null when they say nothing. */
export async function sealWebhooks(
  { settings, ring }: WebhookDeps,
  app: string,
  pool: string,
  { headers, url, disabled, fields = null }: WebhookSettings,
  by_operator: boolean,
): Promise<StoredWebhooks | null> {
  const text = JSON.stringify(headers)
  if (text === '{}' && Object.keys(url).length === 0 && !disabled && fields === null) return null
  const rules = { url, disabled, fields, by_operator }
  if (text === '{}') return { ...rules, sealed: null }
  // Each sealing gives another text: an unchanged one keeps its own.
  const known = (await settings.get(WEBHOOKS, app, pool))?.sealed ?? null
  const isKept = known !== null && opened(ring, known, placeOf(app, pool)) === text
  return { ...rules, sealed: isKept ? known : ring.seal(text, placeOf(app, pool)) }
}

function opened(ring: KeyRing, sealed: string, place: string): string | null {
  try {
    return ring.open(sealed, place)
  } catch {
    return null
  }
}
