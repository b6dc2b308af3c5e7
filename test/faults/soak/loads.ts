/** The load of a soak: short runs, streams, states of 1 MB, threads that stay, crons, and a deployment that is cut over. */
import { setTimeout as sleep } from 'node:timers/promises'
import { followRun } from '../harness/follow.js'
import type { Ledger } from '../harness/ledger.js'

export interface SoakLoads {
  /** Runs of threads that stay; each must end as success. */
  kept: { thread_id: string; run_id: string }[]
  /** Answers and streams that were wrong, in words. */
  wrong: string[]
  streams: { ended: number; refused: number; broken: number }
  /** Milliseconds of short runs, with the time of their end (ms of performance.now()). */
  short: { at: number; ms: number }[]
  deployed: { answers: number; words: Set<string> }
  stop(): Promise<void>
}

interface Options {
  ledger: Ledger
  urls: () => readonly string[]
  /** URL of the deployment, at any edge. */
  deployment: () => string
}

const MB = 1024 * 1024
const STREAM = { count: 100, delay_ms: 40 }
/** Callers of each kind, and their pause between two runs (ms). */
const CALLERS = { short: [3, 200], stream: [3, 500], large: [1, 1_000], kept: [1, 500], deployed: [1, 500] } as const

export function startLoads({ ledger, urls, deployment }: Options): SoakLoads {
  let on = true
  let calls = 0
  const urlOf = () => urls()[calls++ % urls().length]!
  const loads: Omit<SoakLoads, 'stop'> = {
    kept: [],
    wrong: [],
    streams: { ended: 0, refused: 0, broken: 0 },
    short: [],
    deployed: { answers: 0, words: new Set() },
  }
  const note = (text: string) => void loads.wrong.push(text)
  const thread = async () =>
    (await ledger.call<{ thread_id: string }>({ url: urlOf(), path: '/threads', body: {} })).body?.thread_id
  const remove = (thread_id: string) => ledger.call({ url: urlOf(), method: 'DELETE', path: `/threads/${thread_id}` })
  const onThread = (work: (thread_id: string) => Promise<void>) => async () => {
    const thread_id = await thread()
    if (thread_id === undefined) return
    await work(thread_id)
    await remove(thread_id)
  }
  const wait = <T>(thread_id: string, assistant_id: string, input: object) =>
    ledger.call<T>({ url: urlOf(), path: `/threads/${thread_id}/runs/wait`, body: { assistant_id, input } })
  const create = (thread_id: string, assistant_id: string, input: object, more: object = {}) =>
    ledger.call<{ run_id: string }>({
      url: urlOf(),
      path: `/threads/${thread_id}/runs`,
      body: { assistant_id, input, ...more },
    })

  const kinds: { [kind in keyof typeof CALLERS]: (n: number) => Promise<void> } = {
    short: onThread(async thread_id => {
      const began = performance.now()
      const text = `${began}`
      const { outcome, body } = await wait<{ seen?: string }>(thread_id, 'echo', { text })
      if (outcome !== 'ok') return
      if (body?.seen !== text) note(`a short run was answered ${JSON.stringify(body).slice(0, 200)}`)
      loads.short.push({ at: performance.now(), ms: performance.now() - began })
    }),
    large: onThread(async thread_id => {
      const { outcome, body } = await wait<{ a?: string }>(thread_id, 'large', { size: MB })
      if (outcome === 'ok' && body?.a?.length !== MB)
        note(`a state of 1 MB came back with ${body?.a?.length} characters`)
    }),
    stream: async n => {
      const resumable = n % 2 === 0
      await onThread(async thread_id => {
        const more = { stream_mode: ['custom'], stream_resumable: resumable, on_disconnect: 'continue' }
        const { outcome, body } = await create(thread_id, 'chunks', STREAM, more)
        if (outcome !== 'ok') return
        const { seen, ended } = followRun(urlOf, `/threads/${thread_id}/runs/${body!.run_id}/stream`)
        await ended
        loads.streams.broken += seen.broken
        if (seen.state === 'refused') return void loads.streams.refused++
        loads.streams.ended++
        const back = seen.ids.findIndex((id, i) => i > 0 && id <= seen.ids[i - 1]!)
        if (back !== -1) note(`a stream has id ${seen.ids[back]} after ${seen.ids[back - 1]}`)
        // The last attempt is whole: `metadata`, then each event.
        const last = Math.floor(seen.ids.at(-1)! / 1e9) * 1e9
        const whole = seen.ids.filter(id => id >= last)
        if (whole.length !== STREAM.count + 1)
          note(`a stream of ${STREAM.count + 1} events ended with ${whole.length} of its last attempt`)
      })()
    },
    kept: async () => {
      const thread_id = await thread()
      if (thread_id === undefined) return
      for (let i = 0; i < 2; i++) {
        const { outcome, body } = await create(thread_id, 'counter', { steps: 4 })
        if (outcome === 'ok') loads.kept.push({ thread_id, run_id: body!.run_id })
      }
    },
    deployed: async () => {
      const body = { assistant_id: 'agent', input: { text: 'x' } }
      const { outcome, body: values } = await ledger.call<{ answer?: string }>({
        url: deployment(),
        path: '/runs/wait',
        body,
      })
      if (outcome !== 'ok') return
      const word = /^(v\d+) x$/.exec(values?.answer ?? '')?.[1]
      if (word === undefined) return note(`the deployment answered ${JSON.stringify(values).slice(0, 200)}`)
      loads.deployed.answers++
      loads.deployed.words.add(word)
    },
  }
  const loops = Object.entries(CALLERS).flatMap(([kind, [callers, pause]]) =>
    Array.from({ length: callers }, async (_, caller) => {
      for (let n = caller; on; n += callers) {
        await kinds[kind as keyof typeof CALLERS](n)
        await sleep(pause)
      }
    }),
  )
  return Object.assign(loads, {
    async stop() {
      on = false
      await Promise.all(loops)
    },
  })
}
