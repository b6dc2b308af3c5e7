/** The kill matrix for instances that a Docker Engine or a Kubernetes cluster runs. A new driver adds a test here. */
import t from 'tap'
import { killMatrix, WORKER_ORDERS } from './kill-matrix.js'
import { kubernetesMachine } from './kubernetes/machine.js'
import { dockerMachine } from './machines.js'

t.setTimeout(240_000)

/** The machines differ in what the death of a deploy worker leaves. */
const WORKER = ['the deploy worker'] as const

t.test('containers of a Docker Engine', t => killMatrix(t, dockerMachine, WORKER, WORKER_ORDERS))
// The others are built from the same steps, which take many requests here.
t.test('pods of a cluster', t => killMatrix(t, kubernetesMachine, WORKER, ['patch', 'scale']))
