import type { Stage } from './stage.js'

const CALLERS = 4

/** Threads are created, a run of one node on each is awaited, and they are deleted, by four callers. Returns how many failed. */
export async function shortRuns(stage: Stage, url: string, count: number, onRun = (_n: number) => {}): Promise<number> {
  let begun = 0
  let failed = 0
  const one = async () => {
    const { body: thread } = await stage.ledger.call<{ thread_id: string }>({ url, path: '/threads', body: {} })
    const path = `/threads/${thread?.thread_id}`
    const run = { assistant_id: 'slow', input: { ms: 0 } }
    const { body: state } = await stage.ledger.call<{ done?: number[] }>({ url, path: `${path}/runs/wait`, body: run })
    const { status } = await stage.ledger.call({ url, method: 'DELETE', path })
    if (state?.done?.length !== 1 || status !== 204) failed++
  }
  const caller = async () => {
    while (begun < count) {
      onRun(++begun)
      await one()
    }
  }
  await Promise.all(Array.from({ length: CALLERS }, caller))
  return failed
}
