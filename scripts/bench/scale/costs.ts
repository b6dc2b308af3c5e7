/** The costs of each role for `weft size`, from the figures of a bench with a process per role. */
import { readFileSync, writeFileSync } from 'node:fs'
import type { Costs, RoleCosts } from '../../../cli/commands/size-of.js'
import type { Line } from '../report.js'
import type { Results } from '../table.js'

/** Writes the file; what these results do not have stays as it was in it. */
export function writeCosts(file: string, results: Results): void {
  let before: Partial<Costs> = {}
  try {
    before = JSON.parse(readFileSync(file, 'utf8')) as Costs
  } catch {
    // Written for the first time.
  }
  writeFileSync(file, `${JSON.stringify({ ...before, ...costsOf(results) }, null, 2)}\n`)
}

export function costsOf({ at, machine, lines }: Pick<Results, 'at' | 'machine' | 'lines'>): Partial<Costs> {
  const of = (scenario: string) => lines.find(line => line.scenario === scenario && line.value !== null)
  const per = (scenario: string) => {
    const line = of(scenario)
    return line === undefined ? undefined : perOperation(line)
  }
  const [thread, steps] = [per('run-wait-thread'), per('run-wait-steps')]
  const streams = of('streams-10000')
  const stored = of('stored-bytes')
  const [memory, idle] = [of('memory'), of('idle-memory')]
  const { cores, model, node, weft } = machine
  return withoutAbsent({
    at,
    machine: { cores, model, node, weft },
    write: per('create-thread'),
    read: per('get-thread'),
    run: per('run-wait'),
    run_on_thread: thread,
    // The rows differ by three steps with a checkpoint each.
    checkpoint: thread && steps && scaled(minus(steps, thread), 1 / 3),
    token: per('tokens'),
    chunk: per('chunks'),
    stored_chunk: per('chunks-resumable'),
    stream_bytes: streams && roleBytes(streams, '_mb_added', streams.value!),
    memory_mb: memory ? roleFigures(memory, '_mb') : idle && roleFigures(idle, ''),
    stored_bytes: stored && {
      thread: Math.round(stored.value!),
      run: Math.round(stored.also.run_of_one_step!),
      checkpoint: Math.round(stored.also.further_checkpoint!),
      item: Math.round(stored.also.item_of_200!),
    },
  })
}

/** The bench itself, and shells that watch processes. */
const NOT_ROLES = ['client', 'launcher', 'other', 'all', 'most', 'pss', 'mongo', 'postgres']

function perOperation({ cpu_us, cpu_share, messages, message_bytes }: Line): RoleCosts {
  const all = Object.entries(cpu_share).filter(([role]) => role !== 'client')
  const sum = all.reduce((total, [, share]) => total + share, 0)
  const roles = all.filter(([role]) => !NOT_ROLES.includes(role))
  return {
    cpu_us: Object.fromEntries(roles.map(([role, share]) => [role, rounded(((cpu_us ?? 0) * share) / sum)])),
    messages: rounded(messages ?? 0),
    message_bytes: Math.round(message_bytes ?? 0),
  }
}

const minus = (a: RoleCosts, b: RoleCosts): RoleCosts => ({
  cpu_us: Object.fromEntries(
    Object.entries(a.cpu_us).map(([role, us]) => [role, Math.max(0, us - (b.cpu_us[role] ?? 0))]),
  ),
  messages: Math.max(0, a.messages - b.messages),
  message_bytes: Math.max(0, a.message_bytes - b.message_bytes),
})

const scaled = ({ cpu_us, messages, message_bytes }: RoleCosts, by: number): RoleCosts => ({
  cpu_us: Object.fromEntries(Object.entries(cpu_us).map(([role, us]) => [role, rounded(us * by)])),
  messages: rounded(messages * by),
  message_bytes: Math.round(message_bytes * by),
})

const roleFigures = ({ also }: Line, suffix: string): { [role: string]: number } =>
  Object.fromEntries(
    Object.entries(also)
      .filter(([name]) => name.endsWith(suffix))
      .map(([name, value]): [string, number] => [name.slice(0, name.length - suffix.length), Math.round(value)])
      .filter(([role]) => !NOT_ROLES.includes(role)),
  )

function roleBytes({ also }: Line, suffix: string, streams: number): { [role: string]: number } {
  const rows = Object.entries(also).filter(
    ([name]) => name.endsWith(suffix) && !NOT_ROLES.includes(name.split('_')[0]!),
  )
  return Object.fromEntries(
    rows.map(([name, mb]) => [name.slice(0, -suffix.length), Math.max(0, Math.round((mb * 1024 * 1024) / streams))]),
  )
}

const rounded = (value: number): number => Number(value.toPrecision(3))

const withoutAbsent = (costs: { [name in keyof Costs]?: Costs[name] | undefined }): Partial<Costs> =>
  Object.fromEntries(Object.entries(costs).filter(([, value]) => value !== undefined))
