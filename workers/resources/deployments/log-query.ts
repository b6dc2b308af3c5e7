/** Log queries: the form of existing clients (`/v1/projects/…`) and our own (docs/spec/control-plane.md#logs). */
import { bytesHandler, fieldsHandler, type Handler, type Reply } from '../../../bus/serve.js'
import type { LogStage } from '../../../schemas/deploy-calls.js'
import { type LogQuery, validateLogQuery } from '../../../schemas/deployments.js'
import { InvalidFields } from '../../../schemas/errors.js'
import type { Deps } from '../context.js'
import { openQuery, pathIds } from '../query.js'
import { type FoundLine, LEVELS, type LogFilter, readLines } from './logs.js'
import { deploymentOf, revisionOf } from './row.js'

const DEFAULT_LIMIT = 100
/** The log of a deployment is that of its newest revisions. */
const NEWEST = 20

export const logQueries = (deps: Deps) => ({
  build_logs: compatible(deps, ['build']),
  deploy_logs: compatible(deps, ['deploy', 'runtime']),
  runtime_logs: compatible(deps, ['deploy', 'runtime']),
  logs: bytesHandler((_, { head }) => ownForm(deps, head.params, head.query)),
})

const compatible = (deps: Deps, stages: readonly LogStage[]): Handler =>
  fieldsHandler<LogQuery>(validateLogQuery, async (body, { head }) => {
    const say = (name: string, msg: string): never => {
      throw new InvalidFields([{ loc: ['body', name], msg, type: 'value_error' }])
    }
    const filter = filterOf({ ...body, cursor: body.offset }, say)
    return page(await readLines(deps.store, await streams(deps, head.params, stages), filter), filter)
  })

async function ownForm(deps: Deps, params: { [name: string]: string } | undefined, text: string | undefined) {
  const query = openQuery(text)
  const { limit } = query.page(1_000, DEFAULT_LIMIT)
  const stages = query.someOf('stage', ['build', 'deploy', 'runtime'] as const) ?? ['build', 'deploy', 'runtime']
  const order = query.oneOf('order', ['asc', 'desc'])
  query.done()
  const get = (name: string) => query.query.get(name)
  const say = (name: string, msg: string): never => {
    throw new InvalidFields([{ loc: ['query', name], msg, type: 'value_error' }])
  }
  const given = { order, limit, cursor: get('cursor'), level: get('level'), query: get('q') }
  const filter = filterOf({ ...given, start_time: get('start_time'), end_time: get('end_time') }, say)
  return page(await readLines(deps.store, await streams(deps, params, stages), filter), filter)
}

type Given = Omit<LogQuery, 'offset'> & { cursor?: string | null | undefined }

function filterOf(given: Given, say: (name: string, msg: string) => never): LogFilter {
  const level = given.level ? given.level.toUpperCase() : null
  if (level !== null && !(LEVELS as readonly string[]).includes(level)) say('level', `expected ${LEVELS.join(' or ')}`)
  return {
    order: given.order ?? 'asc',
    limit: given.limit ?? DEFAULT_LIMIT,
    after: given.cursor ? (positionOf(given.cursor) ?? say('offset', 'expected the next_offset of an answer')) : null,
    level,
    query: given.query || null,
    start: timeOf(given.start_time, () => say('start_time', A_TIME)),
    end: timeOf(given.end_time, () => say('end_time', A_TIME)),
  }
}

const A_TIME = 'expected milliseconds since the epoch, or a date-time'

function timeOf(given: number | string | null | undefined, wrong: () => never): number | null {
  if (given === null || given === undefined || given === '') return null
  const ms = typeof given === 'number' || /^\d+$/.test(given) ? Number(given) : Date.parse(given)
  return Number.isFinite(ms) ? ms : wrong()
}

/** Streams of the revision in the path, else of the newest revisions of the deployment. */
async function streams(
  deps: Deps,
  params: { [name: string]: string } | undefined,
  stages: readonly LogStage[],
): Promise<{ revision_id: string; stage: LogStage }[]> {
  const { store } = deps
  const one = params?.revision_id !== undefined
  const [deployment_id, revision_id] = pathIds(params, 'deployment_id', ...(one ? ['revision_id'] : []))
  const deployment = await deploymentOf(store, deployment_id!)
  const rows = one
    ? [await revisionOf(store, deployment, revision_id!)]
    : await store.records.list({ kind: 'revision', parent: deployment.id, limit: NEWEST })
  return rows.flatMap(({ id }) => stages.map(stage => ({ revision_id: id, stage })))
}

function page(found: FoundLine[], { limit }: LogFilter): Reply {
  const lines = found.slice(0, limit)
  const last = lines.at(-1)
  const next_offset = found.length > limit && last !== undefined ? textOf(last) : null
  const logs = lines.map(({ id, t, level, text }) => ({ id, timestamp: t, level, message: text }))
  return { body: JSON.stringify({ logs, next_offset }) }
}

const textOf = ({ t, id }: { t: number; id: string }): string => Buffer.from(`${t} ${id}`).toString('base64url')

function positionOf(text: string): { t: number; id: string } | null {
  const found = /^(\d{1,15}) ([0-9a-z.-]{1,100})$/.exec(Buffer.from(text, 'base64url').toString())
  return found === null ? null : { t: Number(found[1]), id: found[2]! }
}
