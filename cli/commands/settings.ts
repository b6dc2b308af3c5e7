/** `weft settings`: the variables that Weft reads, as docs/configuration.md. */
import { SETTINGS } from '../../schemas/config.js'
import { paint, printJson, wrap } from '../terminal/text.js'

/** Variables of the commands themselves, which no role reads. */
const OF_COMMANDS = [
  { env: 'WEFT_URL', default: '', doc: 'Server of the commands that call one; http://127.0.0.1:2024 when empty.' },
  { env: 'WEFT_KEY', default: '', doc: 'Key that these commands send as X-Api-Key.' },
  { env: 'WEFT_NATS_SERVER', default: '', doc: 'Path of the nats-server that `weft start` starts.' },
  { env: 'WEFT_NATS_MONITOR', default: '', doc: 'Port of its monitoring pages on 127.0.0.1; none when empty.' },
  { env: 'NO_COLOR', default: '', doc: 'No colours in the output of commands when set.' },
]

export function listSettings({ json }: { json?: true }): void {
  const all = [...Object.values(SETTINGS).filter(({ isInternal }) => !isInternal), ...OF_COMMANDS].map(
    ({ env, default: fallback, doc }) => ({
      variable: env,
      default: `${fallback}`,
      meaning: doc,
    }),
  )
  if (json) return printJson(all)
  const width = Math.min(process.stdout.columns ?? 80, 100)
  for (const { variable, default: fallback, meaning } of all) {
    const name = paint(variable, 'cyan')
    process.stdout.write(`${name}${fallback === '' ? '' : ` [${fallback}]`}\n`)
    for (const line of wrap(meaning, width - 4)) process.stdout.write(`    ${line}\n`)
  }
}
