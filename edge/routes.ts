/** The doors of the edge: one row per route. */
import type { RunMode } from '../schemas/runs.js'
import { rpc } from '../schemas/subjects.js'

/**
 * How a route is answered: `json` forwards a call and its answer; `create` makes a run; the joins attach to one;
 * the others are answered by the edge itself.
 */
export type AnswerKind = 'json' | 'create' | 'join-stream' | 'join-wait' | 'cancel' | 'root' | 'ok' | 'ready' | 'info'

export interface Row {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  path: string
  answer: AnswerKind
  subject: string
  /** Routes that make a run: how it is followed. */
  mode?: RunMode
}

export interface Route extends Row {
  /** Names of the path's parameters, in order. */
  params: string[]
}

const { create, get, join, state } = {
  create: rpc('runs', 'create'),
  get: rpc('runs', 'get'),
  join: rpc('runs', 'join'),
  state: rpc('threads', 'state'),
}

// biome-ignore format: a table
const ROWS: readonly Row[] = [
  { method: 'GET', path: '/', answer: 'root', subject: '' },
  { method: 'GET', path: '/ok', answer: 'ok', subject: rpc('system', 'check') },
  { method: 'GET', path: '/ready', answer: 'ready', subject: rpc('system', 'ready') },
  { method: 'GET', path: '/info', answer: 'info', subject: '' },

  { method: 'POST', path: '/assistants', answer: 'json', subject: rpc('assistants', 'create') },
  { method: 'GET', path: '/assistants/:assistant_id', answer: 'json', subject: rpc('assistants', 'get') },

  { method: 'POST', path: '/threads', answer: 'json', subject: rpc('threads', 'create') },
  { method: 'GET', path: '/threads/:thread_id', answer: 'json', subject: rpc('threads', 'get') },
  { method: 'GET', path: '/threads/:thread_id/state', answer: 'json', subject: state },

  { method: 'POST', path: '/runs', answer: 'create', subject: create, mode: 'background' },
  { method: 'POST', path: '/runs/stream', answer: 'create', subject: create, mode: 'stream' },
  { method: 'POST', path: '/runs/wait', answer: 'create', subject: create, mode: 'wait' },
  { method: 'GET', path: '/runs/:run_id/stream', answer: 'join-stream', subject: join },
  { method: 'GET', path: '/runs/:run_id/join', answer: 'join-wait', subject: join },

  { method: 'POST', path: '/threads/:thread_id/runs', answer: 'create', subject: create, mode: 'background' },
  { method: 'POST', path: '/threads/:thread_id/runs/stream', answer: 'create', subject: create, mode: 'stream' },
  { method: 'POST', path: '/threads/:thread_id/runs/wait', answer: 'create', subject: create, mode: 'wait' },
  { method: 'GET', path: '/threads/:thread_id/runs/:run_id', answer: 'json', subject: get },
  { method: 'GET', path: '/threads/:thread_id/runs/:run_id/stream', answer: 'join-stream', subject: join },
  { method: 'GET', path: '/threads/:thread_id/runs/:run_id/join', answer: 'join-wait', subject: join },
  { method: 'POST', path: '/threads/:thread_id/runs/:run_id/cancel', answer: 'cancel', subject: rpc('runs', 'cancel') },
]

export const ROUTES: readonly Route[] = ROWS.map(row => ({
  ...row,
  params: [...row.path.matchAll(/:(\w+)/g)].map(([, name]) => name!),
}))
