/**
 * A provider from the address of an MCP server (MCP, authorization): its protected resource metadata (RFC 9728) names the
 * authorization server, whose metadata (RFC 8414) names the endpoints, and there this server registers a client
 * (RFC 7591). An MCP server without such metadata is its own authorization server.
 */
import * as oauth from 'oauth4webapi'
import type { CallHead } from '../../../schemas/calls.js'
import { fail, InvalidFields } from '../../../schemas/errors.js'
import type { McpDiscover } from '../../../schemas/oauth.js'
import type { Provider } from '../../../schemas/providers.js'
import type { Deps } from '../context.js'
import { codeOf, requestOptions } from './client.js'
import { insertProvider, isProviderUrl, providerOut } from './providers.js'
import { redirectOf } from './redirects.js'

/** Throws bad_request with the step that failed. */
export async function discover(deps: Deps, given: McpDiscover, head: CallHead): Promise<Provider> {
  const { provider_id, name, mcp_server_url } = given
  if (!isProviderUrl(mcp_server_url)) {
    const msg = 'expected an absolute https URL without user, password and fragment'
    throw new InvalidFields([{ loc: ['body', 'mcp_server_url'], msg, type: 'url_parsing' }])
  }
  const { uri } = redirectOf(deps.config, head, provider_id, null)
  const server = await serverOf(deps, await issuerOf(deps, new URL(mcp_server_url)))
  const { authorization_endpoint, token_endpoint, registration_endpoint } = server
  if (authorization_endpoint === undefined || token_endpoint === undefined)
    throw fail('bad_request', `${server.issuer} does not serve the authorization code flow`)
  if (registration_endpoint === undefined)
    throw fail('bad_request', `${server.issuer} registers no clients: create the provider with POST /v2/auth/providers`)
  if (
    server.code_challenge_methods_supported !== undefined &&
    !server.code_challenge_methods_supported.includes('S256')
  )
    throw fail('bad_request', `${server.issuer} does not support PKCE with S256`)
  const method = methodOf(server)
  const client = await step('the registration of a client', async () =>
    oauth.processDynamicClientRegistrationResponse(
      await oauth.dynamicClientRegistrationRequest(
        server,
        {
          client_name: 'Weft',
          redirect_uris: [uri],
          grant_types: ['authorization_code', 'refresh_token'],
          response_types: ['code'],
          token_endpoint_auth_method: method,
        },
        requestOptions(deps.allowed),
      ),
    ),
  )
  const provider = await insertProvider(
    deps,
    {
      provider_id,
      name,
      client_id: client.client_id,
      client_secret: typeof client.client_secret === 'string' ? client.client_secret : null,
      auth_url: authorization_endpoint,
      token_url: token_endpoint,
      uses_pkce: true,
      token_endpoint_auth_method: method,
      issuer: server.authorization_response_iss_parameter_supported === true ? server.issuer : null,
      revocation_url: server.revocation_endpoint ?? null,
    },
    head,
    { mcp_server_url, is_dynamic_client: true },
  )
  return providerOut(deps, provider)
}

async function issuerOf({ allowed }: Deps, resource: URL): Promise<URL> {
  const options = requestOptions(allowed)
  const answer = await step('the metadata of the MCP server', () => oauth.resourceDiscoveryRequest(resource, options))
  if (answer.status === 404) return new URL(resource.origin)
  const { authorization_servers } = await step('the metadata of the MCP server', () =>
    oauth.processResourceDiscoveryResponse(resource, answer),
  )
  const issuer = authorization_servers?.[0]
  return issuer === undefined ? new URL(resource.origin) : new URL(issuer)
}

async function serverOf({ allowed }: Deps, issuer: URL): Promise<oauth.AuthorizationServer> {
  return step('the metadata of the authorization server', async () => {
    const options = requestOptions(allowed)
    const answer = await oauth.discoveryRequest(issuer, { ...options, algorithm: 'oauth2' })
    if (answer.status === 200) return oauth.processDiscoveryResponse(issuer, answer)
    return oauth.processDiscoveryResponse(
      issuer,
      await oauth.discoveryRequest(issuer, { ...options, algorithm: 'oidc' }),
    )
  })
}

/** A secret that this server keeps is better than none. */
function methodOf({
  token_endpoint_auth_methods_supported: supported = ['client_secret_basic'],
}: oauth.AuthorizationServer) {
  return (['client_secret_basic', 'client_secret_post'] as const).find(one => supported.includes(one)) ?? 'none'
}

/** Failures are the fault of the address, or of the server behind it. */
async function step<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const why = error instanceof oauth.ResponseBodyError ? codeOf(error.error) : (error as Error).message.slice(0, 200)
    throw fail('bad_request', `${what} failed: ${why}`)
  }
}
