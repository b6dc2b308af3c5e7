import { createHash } from 'node:crypto'
import type { Row } from '../harness/row.js'

const MB = 1024 * 1024
const SIZES = [0.9, 1.1, 15, 17, 60]
const TOO_LARGE = 70

const digest = (text: string): string => createHash('sha256').update(text).digest('hex')

export const row: Row = {
  number: 18,
  name: 'Large states',
  fault: `A node returns a state of ${SIZES.join(', ')} and ${TOO_LARGE} MB.`,
  promised:
    'States up to 64 MB come back equal by hash; a larger one ends its run as `error` with a reason, and its worker lives.',
  async run(stage) {
    const roles = await stage.roles({ app: 'test/apps/basic', edges: 1, graphs: 1 })
    const url = roles.urls[0]!
    const sizes = stage.quick ? SIZES.slice(0, 4) : SIZES
    const equal: number[] = []
    const runOf = async (mb: number) => {
      const { body: thread } = await stage.ledger.call<{ thread_id: string }>({ url, path: '/threads', body: {} })
      const path = `/threads/${thread!.thread_id}/runs/wait`
      const body = { assistant_id: 'large', input: { size: Math.round(mb * MB) } }
      const answer = await stage.ledger.call<{ a?: string; __error__?: object }>({ url, path, body, timeout: 120_000 })
      return { thread_id: thread!.thread_id, ...answer }
    }
    for (const mb of sizes) {
      const { body } = await runOf(mb)
      const isEqual = typeof body?.a === 'string' && digest(body.a) === digest('a'.repeat(Math.round(mb * MB)))
      stage.expect(isEqual, `a state of ${mb} MB came back as ${body?.a?.length ?? 0} characters`)
      if (isEqual) equal.push(mb)
    }
    const { thread_id } = await runOf(TOO_LARGE)
    const request = { url, method: 'GET', path: `/threads/${thread_id}/runs` }
    const { body: runs } = await stage.ledger.call<{ status: string }[]>(request)
    const status = runs?.[0]?.status
    stage.expect(status === 'error', `the run with ${TOO_LARGE} MB is ${status}`)
    const { body: after } = await runOf(0.001)
    stage.expect(typeof after?.a === 'string', 'the worker executes no run afterwards')
    const dead = roles.graphs.filter(({ child }) => child.exitCode !== null).length
    stage.expect(dead === 0, 'the graph worker ended')
    return {
      load: `states of ${[...sizes, TOO_LARGE].join(', ')} MB, one after the other`,
      measured: `${equal.join(', ')} MB came back equal; the run with ${TOO_LARGE} MB ended as ${status}`,
    }
  },
}
