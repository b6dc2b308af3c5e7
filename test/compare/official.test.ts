/** A part of `npm run compare`, where the official servers are installed: `npm run compare` installs them. */
import t from 'tap'
import { hasDevServer } from '../../scripts/bench/peer-js.js'
import { hasBenchPython } from '../../scripts/bench/peer-python.js'
import { casesOf } from './cases.js'
import { compareServers } from './servers.js'

const PART =
  /^(assistants\/create|threads\/(create|patch)|interrupts\/(ask|answers|both)|items\/(filter|replace|key)|state\/update|values\/(resume|metadata)|streams\/(ask|counter)\/(values|updates|tasks)$)/

for (const [language, isInstalled] of [
  ['python', hasBenchPython()],
  ['javascript', hasDevServer()],
] as const) {
  const skip = isInstalled ? false : `the official server for ${language} is not installed: npm run compare installs it`
  t.test(`${language}: no difference without a reason`, { skip, timeout: 300_000 }, async t => {
    const cases = casesOf(language, 1).filter(({ name, alone }) => PART.test(name) && !alone)
    const score = await compareServers(language, cases, line => t.comment(line))
    t.ok(score.comparisons > 200, `${score.comparisons} comparisons`)
    t.equal(score.unexplained, 0)
  })
}
