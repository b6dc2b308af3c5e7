import t from 'tap'
import { DEPLOYMENT_STATUSES, REVISION_STATUSES, type RevisionStatus } from '../../../schemas/deployments.js'
import {
  type DeploymentEvent,
  deploymentAfter,
  firstStage,
  isOver,
  mayBecome,
} from '../../../workers/resources/deployments/status.js'

/** docs/spec/control-plane.md#deployment-status, row by row. */
const DEPLOYMENT: [DeploymentEvent, { [from: string]: string }][] = [
  ['provisioned', { AWAITING_DATABASE: 'READY' }],
  ['not provisioned', { AWAITING_DATABASE: 'UNKNOWN' }],
  ['idle', { READY: 'UNUSED' }],
  ['work', { UNUSED: 'READY' }],
  [
    'delete',
    {
      READY: 'AWAITING_DELETE',
      UNUSED: 'AWAITING_DELETE',
      AWAITING_DATABASE: 'AWAITING_DELETE',
      UNKNOWN: 'AWAITING_DELETE',
    },
  ],
  ['lost', { AWAITING_DATABASE: 'UNKNOWN', READY: 'UNKNOWN', UNUSED: 'UNKNOWN' }],
  ['found', { UNKNOWN: 'READY' }],
]

t.test('deployment: every status at every event', async t => {
  for (const [event, rows] of DEPLOYMENT)
    for (const from of DEPLOYMENT_STATUSES)
      t.equal(deploymentAfter(from, event), rows[from] ?? from, `${from}, ${event}`)
  t.equal(DEPLOYMENT_STATUSES.length, 5)
})

/** docs/spec/control-plane.md#revision-status, T2 to T17. */
const OPEN: RevisionStatus[] = ['CREATING', 'QUEUED', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING']
const ROWS: [RevisionStatus[], RevisionStatus][] = [
  [['CREATING'], 'CREATE_FAILED'],
  [['CREATING'], 'QUEUED'],
  [['CREATING', 'QUEUED'], 'AWAITING_BUILD'],
  [['CREATING', 'QUEUED'], 'AWAITING_DEPLOY'],
  [['QUEUED'], 'SKIPPED'],
  [['AWAITING_BUILD'], 'BUILDING'],
  [['AWAITING_BUILD'], 'BUILD_FAILED'],
  [['BUILDING'], 'AWAITING_DEPLOY'],
  [['BUILDING'], 'BUILD_FAILED'],
  [['AWAITING_DEPLOY'], 'DEPLOYING'],
  [['AWAITING_DEPLOY'], 'DEPLOY_FAILED'],
  [['DEPLOYING'], 'DEPLOYED'],
  [['DEPLOYING'], 'DEPLOY_FAILED'],
  [OPEN, 'INTERRUPTED'],
  [OPEN, 'UNKNOWN'],
  [['UNKNOWN'], 'DEPLOYED'],
  [['UNKNOWN'], 'DEPLOY_FAILED'],
]

t.test('revision: every pair, legal or not', async t => {
  const legal = new Set(ROWS.flatMap(([froms, to]) => froms.map(from => `${from} ${to}`)))
  for (const from of REVISION_STATUSES)
    for (const to of REVISION_STATUSES) t.equal(mayBecome(from, to), legal.has(`${from} ${to}`), `${from} → ${to}`)
  t.equal(REVISION_STATUSES.length, 13)
})

t.test('which statuses are final, and the first stage of a revision', async t => {
  for (const status of REVISION_STATUSES) t.equal(isOver(status), !OPEN.includes(status), status)
  t.equal(firstStage('github', null), 'AWAITING_BUILD')
  t.equal(firstStage('github', 'artefact'), 'AWAITING_DEPLOY')
  t.equal(firstStage('external_docker', null), 'AWAITING_DEPLOY')
})
