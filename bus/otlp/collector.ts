/** The collector of OpenTelemetry that spans (traces.ts) and figures (metrics.ts) are sent to, over OTLP/HTTP as JSON. */
import type { Attributes } from '@opentelemetry/api'
import type { Config } from '../../schemas/config.js'

export const urlAt = ({ otlp_endpoint }: Config, signal: 'traces' | 'metrics'): string =>
  `${otlp_endpoint.replace(/\/$/, '')}/v1/${signal}`

/** `name=value` pairs, comma-separated and percent-encoded, as OTEL_EXPORTER_OTLP_HEADERS has them. */
export const headersOf = ({ otlp_headers }: Config): { [name: string]: string } =>
  Object.fromEntries(
    otlp_headers.split(',').flatMap(pair => {
      const at = pair.indexOf('=')
      return at < 1 ? [] : [[pair.slice(0, at).trim(), decodeURIComponent(pair.slice(at + 1).trim())]]
    }),
  )

/** The resource of a role. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come before what Weft says of itself. */
export async function resourceOf(role: string, own: Attributes = {}) {
  const { detectResources, envDetector, resourceFromAttributes } = await import('@opentelemetry/resources')
  return resourceFromAttributes({ 'service.name': `weft-${role}`, 'weft.role': role, ...own }).merge(
    detectResources({ detectors: [envDetector] }),
  )
}
