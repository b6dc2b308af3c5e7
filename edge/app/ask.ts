/**
 * How an edge asks the `auth` of an application about one request: its own app host over a pipe, or the app host of a
 * deployment, which runs beside the graph workers of the deployment, by a call to their pool.
 */
import type { Caller } from '../../bus/call.js'
import { unpackAs } from '../../bus/decode.js'
import { type CheckCall, validateCheckAnswer } from '../../schemas/app-host.js'
import type { CheckAnswer } from '../../schemas/auth/auth.js'
import { fail, WeftError } from '../../schemas/errors.js'
import type { Pool } from '../../schemas/ids.js'
import { pack } from '../../schemas/packed.js'
import { host } from '../../schemas/subjects.js'

/**
 * `body` is the new body where a handler changed it. Rejects with `unavailable` while no app host is ready, and with
 * `internal` for an answer that is none.
 */
export type Ask = (
  call: Omit<CheckCall, 'verb'>,
  body: Uint8Array,
) => Promise<{ answer: CheckAnswer; body: Uint8Array }>

/** Longer than an app host gives the code of the application, and than its parent waits for it. */
const CALL_MS = 10_000

/** Asks an app host beside a graph worker of the pool. */
export function askPool(caller: Caller, pool: Pool): Ask {
  const subject = host(pool, 'check')
  return async (call, body) => {
    const packed = pack({ verb: 'check', ...call }, [body])
    const send = (offered: boolean) =>
      caller.ask(subject, { request_id: '' }, packed, { timeout: CALL_MS, repeat: true, offered })
    const answer = await send(false).catch(error => {
      // The app host of this graph worker is being started: the offer finds one that is ready.
      if (error instanceof WeftError && error.code === 'unavailable') return send(true)
      throw error
    })
    return readAnswer(answer.body)
  }
}

const TOKEN = /^[\w!#$%&'*+.^`|~-]+$/

/** A value that the head of an answer cannot hold would end the head: the rest would be another answer. */
const isWritable = ({ status, headers = {} }: { status: number; headers?: { [name: string]: string } }): boolean =>
  Number.isInteger(status) &&
  status >= 200 &&
  status < 600 &&
  Object.entries(headers).every(([name, value]) => TOKEN.test(name) && !/[^\t\x20-\x7e\x80-\xff]/.test(value))

/** Throws `internal`: code of the application runs there, so the bytes may be anything. */
export function readAnswer(bytes: Uint8Array): { answer: CheckAnswer; body: Uint8Array } {
  try {
    const { head: answer, rest: body } = unpackAs(bytes, validateCheckAnswer)
    if (!('refused' in answer) || isWritable(answer.refused)) return { answer, body }
  } catch {
    // It counts as an answer of another shape.
  }
  throw fail('internal', 'The authentication of the application gave an answer that cannot be read')
}
