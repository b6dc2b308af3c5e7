/** The kill matrix, on each kind of machine. A driver adds a row by a machine of its own. */
import t from 'tap'
import { killMatrix } from './kill-matrix.js'
import { kubernetesMachine } from './kubernetes/machine.js'
import { dockerMachine, fakeMachine } from './machines.js'

t.setTimeout(240_000)

const ALL = ['the deploy worker', 'the resource worker', 'an answer'] as const
/** The machines differ in what the death of a deploy worker leaves, and in these orders. */
const WORKER = ['the deploy worker'] as const
const ORDERS = ['create', 'patch', 'interrupt', 'delete', 'scale', 'scale up by load', 'scale down by load']

t.test('instances that end with the deploy worker', t => killMatrix(t, () => fakeMachine({ outlives: false }), ALL))
t.test('instances that outlive the deploy worker', t =>
  killMatrix(t, () => fakeMachine({ outlives: true }), WORKER, ORDERS),
)
t.test('containers of a Docker Engine', t => killMatrix(t, dockerMachine, WORKER, ORDERS))
// The others are built from the same steps, which take many requests here.
t.test('pods of a cluster', t => killMatrix(t, kubernetesMachine, WORKER, ['patch', 'scale']))
