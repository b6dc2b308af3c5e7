/** The kill matrix for instances that are processes. */
import t from 'tap'
import { killMatrix, WORKER_ORDERS } from './kill-matrix.js'
import { fakeMachine } from './machines.js'

t.setTimeout(240_000)

const ALL = ['the deploy worker', 'the resource worker', 'an answer'] as const

t.test('instances that end with the deploy worker', t => killMatrix(t, () => fakeMachine({ outlives: false }), ALL))
t.test('instances that outlive the deploy worker', t =>
  killMatrix(t, () => fakeMachine({ outlives: true }), ['the deploy worker'], WORKER_ORDERS),
)
