/** Errors of the driver that mean that the database cannot be used now. */
import { setTimeout as sleep } from 'node:timers/promises'
import {
  MongoBulkWriteError,
  MongoClientClosedError,
  MongoCursorExhaustedError,
  MongoExpiredSessionError,
  MongoInvalidArgumentError,
  MongoNetworkError,
  MongoNetworkTimeoutError,
  MongoNotConnectedError,
  MongoOperationTimeoutError,
  MongoParseError,
  MongoServerClosedError,
  MongoServerError,
  MongoServerSelectionError,
  MongoStalePrimaryError,
  MongoTopologyClosedError,
  MongoWriteConcernError,
} from 'mongodb'
import t from 'tap'
import { openCalls } from '../../store/calls.js'
import { isOutage, optionsFor } from '../../store/mongo/connection.js'
import { openMongo } from '../../store/mongo.js'
import { halt } from '../helpers/processes.js'
import { startOwnMongo } from '../helpers/stores/mongo-server.js'
import { until } from '../helpers/until.js'
import { record } from './conformance-rows.js'

t.setTimeout(120_000)

const answer = (code: number, codeName: string) => new MongoServerError({ message: codeName, code, codeName })

t.test('errors of the driver', t => {
  const network = new MongoNetworkError('connection 1 to 127.0.0.1:27017 closed')
  const written = { insertedCount: 0 } as never
  const outages: Error[] = [
    network,
    new MongoNetworkTimeoutError('timed out'),
    new MongoServerSelectionError('Server selection timed out', { error: network } as never),
    new MongoServerClosedError('Server is closed'),
    new MongoTopologyClosedError('Topology is closed'),
    new MongoClientClosedError(),
    new MongoNotConnectedError('not connected'),
    new MongoExpiredSessionError('ended'),
    new MongoCursorExhaustedError('Cursor is exhausted'),
    new MongoStalePrimaryError('a newer primary was elected'),
    new MongoOperationTimeoutError('timed out at socket write'),
    new MongoWriteConcernError({ ok: 1, writeConcernError: { code: 64, errmsg: 'waiting for replication timed out' } }),
    new MongoBulkWriteError(network as never, written),
    Object.assign(new Error('write EPIPE'), { errno: -32, code: 'EPIPE', syscall: 'write' }),
    // A socket that the server has ended: Node.js says so before it asks the system.
    Object.assign(new Error('This socket has been ended by the other party'), { code: 'EPIPE' }),
    Object.assign(new Error('Cannot call write after a stream was destroyed'), { code: 'ERR_STREAM_DESTROYED' }),
    ...(
      [
        [6, 'HostUnreachable'],
        [7, 'HostNotFound'],
        [43, 'CursorNotFound'],
        [50, 'MaxTimeMSExpired'],
        [64, 'WriteConcernFailed'],
        [89, 'NetworkTimeout'],
        [91, 'ShutdownInProgress'],
        [100, 'UnsatisfiableWriteConcern'],
        [112, 'WriteConflict'],
        [133, 'FailedToSatisfyReadPreference'],
        [134, 'ReadConcernMajorityNotAvailableYet'],
        [189, 'PrimarySteppedDown'],
        [237, 'CursorKilled'],
        [262, 'ExceededTimeLimit'],
        [9001, 'SocketException'],
        [10107, 'NotWritablePrimary'],
        [11600, 'InterruptedAtShutdown'],
        [11601, 'Interrupted'],
        [11602, 'InterruptedDueToReplStateChange'],
        [13435, 'NotPrimaryNoSecondaryOk'],
        [13436, 'NotPrimaryOrSecondary'],
      ] as const
    ).map(([code, name]) => answer(code, name)),
  ]
  for (const error of outages) t.ok(isOutage(error), `${error.name}: ${error.message}`)
  const ours = [
    new MongoInvalidArgumentError('wrong'),
    new MongoParseError('wrong'),
    answer(2, 'BadValue'),
    answer(9, 'FailedToParse'),
    answer(14, 'TypeMismatch'),
    answer(13, 'Unauthorized'),
    answer(18, 'AuthenticationFailed'),
    new TypeError('wrong'),
    'wrong',
    null,
  ]
  for (const error of ours) t.notOk(isOutage(error), `${error}`)
  t.end()
})

t.test('the URL chooses, but for what the promises rest on', t => {
  const own = optionsFor('mongodb://h/d?retryWrites=false&socketTimeoutMS=90000&readPreference=secondaryPreferred&w=1')
  t.notOk('retryWrites' in own)
  t.notOk('socketTimeoutMS' in own)
  t.match(own, { readPreference: 'primary', writeConcern: { w: 'majority', journal: true }, maxPoolSize: 50 })
  t.match(optionsFor('mongodb://h/d'), { retryWrites: true, socketTimeoutMS: 30_000 })
  t.end()
})

t.test('an outage is logged once, also while some calls succeed beside it', async t => {
  const lines: string[] = []
  const say = (_: object, message: string) => void lines.push(message)
  const { call, close } = openCalls(isOutage, { info: say, warn: say })
  for (let i = 0; i < 5; i++) {
    await t.rejects(
      call(() => Promise.reject(new MongoClientClosedError())),
      { code: 'unavailable' },
    )
    t.equal(await call(async () => 'fine'), 'fine')
  }
  t.same(lines, ['the database cannot be used'])
  await t.rejects(
    call(() => Promise.reject(new TypeError('ours'))),
    TypeError,
  )
  let ends = 0
  await Promise.all([close(async () => void ends++), close(async () => void ends++)])
  t.equal(ends, 1)
  await t.rejects(
    call(async () => 'fine'),
    { code: 'unavailable' },
  )
})

t.test('the server dies while a large value is on its way to it', async t => {
  const mongo = await startOwnMongo()
  t.teardown(() => mongo.stop())
  const store = await openMongo({ url: mongo.url('weft') })
  t.teardown(() => store.close())
  const body = JSON.stringify('x'.repeat(32 * 1024 * 1024))
  // It takes nothing any more: the rest of the value waits on our side.
  await halt(mongo.pid()!)
  const write = t.rejects(store.apply([{ step: 'records.insert', row: record({ kind: 'k', id: 'r', body }) }]), {
    code: 'unavailable',
  })
  await sleep(500)
  await mongo.kill()
  await write
  await mongo.restart()
  for (;;) {
    if ((await store.ping().catch(error => error.code)) === undefined) break
    await sleep(100)
  }
  t.equal(await store.records.get('k', 'r'), null)
})

t.test('the server hangs while a large value is on its way to it', async t => {
  const mongo = await startOwnMongo()
  t.teardown(() => mongo.stop())
  const store = await openMongo({ url: mongo.url('weft') })
  t.teardown(() => store.close())
  await store.ping()
  const body = JSON.stringify('x'.repeat(32 * 1024 * 1024))
  await halt(mongo.pid()!)
  // The driver closes the connection when its heartbeat is not answered, with the rest of the value unsent.
  await t.rejects(store.apply([{ step: 'records.insert', row: record({ kind: 'k', id: 'r', body }) }]), {
    code: 'unavailable',
  })
  process.kill(mongo.pid()!, 'SIGCONT')
  await until(() =>
    store.ping().then(
      () => true,
      () => false,
    ),
  )
  t.equal(await store.apply([{ step: 'records.insert', row: record({ kind: 'k', id: 's', body }) }]), -1)
})

t.test('the server dies while commands of several calls are on their way to it', async t => {
  const mongo = await startOwnMongo()
  t.teardown(() => mongo.stop())
  const store = await openMongo({ url: mongo.url('weft') })
  t.teardown(() => store.close())
  const ids = Array.from({ length: 40 }, (_, i) => `r${i}`)
  const insert = (id: string) => store.apply([{ step: 'records.insert', row: record({ kind: 'k', id, name: null }) }])
  t.equal(await insert('before'), -1)
  await halt(mongo.pid()!)
  const all = [...ids.map(insert), ...ids.map(id => store.records.get('k', id))]
  const calls = Promise.allSettled(all)
  await sleep(500)
  await mongo.kill()
  const codes = (await calls).map(call => (call.status === 'rejected' ? call.reason.code : call.value))
  t.same(new Set(codes), new Set(['unavailable']), 'none is taken for stored, or for absent')
  await mongo.restart()
  for (;;) {
    if ((await store.ping().catch(error => error.code)) === undefined) break
    await sleep(100)
  }
  t.match(await store.records.get('k', 'before'), { id: 'before' })
  t.same(new Set(await Promise.all(ids.map(insert))), new Set([-1]), 'they can be repeated')
})
