/** OAuth by the published Python SDK, unmodified. */
import { join } from 'node:path'
import t from 'tap'
import { venvOf, withoutPython } from '../../../scripts/checks/venv.js'
import { startRoles } from '../../helpers/cluster.js'
import { KEY } from '../../helpers/control.js'
import { CLIENT, openOidc } from '../../helpers/oidc.js'
import { pythonChecks, runChecks } from '../../helpers/python-checks.js'

t.setTimeout(300_000)

t.test('langchain-auth', { skip: withoutPython() ?? false }, async t => {
  const program = await venvOf(join(pythonChecks, 'requirements-auth.txt'))
  const oidc = await openOidc()
  t.teardown(() => oidc.stop())
  const roles = await startRoles({ graphs: 0, env: { WEFT_CONTROL_KEY: KEY, WEFT_ALLOW_HOSTS: oidc.host } })
  t.teardown(() => roles.stop())
  const url = roles.urls[0]!
  oidc.serve([`${url}/v2/auth/callback/python`])
  await runChecks(t, program, 'check_auth.py', {
    LANGSMITH_API_URL: `${url}/api-host`,
    LANGSMITH_API_KEY: KEY,
    OIDC_ISSUER: oidc.issuer,
    OIDC_CLIENT: CLIENT.client_id,
    OIDC_SECRET: CLIENT.client_secret,
  })
})
