/** The kill matrix, on machines whose instances are processes. */
import t from 'tap'
import { ALL, killMatrix, WORKER_ORDERS } from './kill-matrix.js'
import { fakeMachine } from './machines.js'

t.setTimeout(240_000)

t.test('instances that end with the deploy worker', t => killMatrix(t, () => fakeMachine({ outlives: false }), ALL))
t.test('instances that outlive the deploy worker', t =>
  killMatrix(t, () => fakeMachine({ outlives: true }), ['the deploy worker'], WORKER_ORDERS),
)
