/** Sources that clients upload: what a signed address takes, what it refuses, and what is left of it. */
import { randomBytes } from 'node:crypto'
import { Agent, type IncomingMessage, request } from 'node:http'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import type { Deployment } from '../../schemas/deployments.js'
import { openRing } from '../../workers/resources/keys/ring.js'
import { startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { until } from '../helpers/until.js'
import { type Entry, tarOf } from './archive.js'
import { controlOf, deployEnv } from './control.js'
import { application } from './repository.js'

t.setTimeout(240_000)
const ENCRYPTION_KEY = 'encryption-key-of-the-tests'
const MB = 1024 ** 2

type Bytes = ReturnType<typeof gzipSync>

interface Target {
  upload_url: string
  object_path: string
}

interface Sent {
  status: number
  body: { detail?: string; size?: number }
}

const archiveOf = (files: { [path: string]: string }, more: Entry[] = []): Bytes =>
  gzipSync(tarOf([...Object.entries(files).map(([path, text]) => ({ path, text })), ...more]))

t.test('uploads', async t => {
  const cluster = await startCluster({
    app: 'test/apps/basic',
    env: { ...deployEnv('/nowhere'), WEFT_ENCRYPTION_KEY: ENCRYPTION_KEY, WEFT_UPLOAD_MB: '4' },
  })
  t.teardown(() => cluster.stop())
  const control = controlOf(cluster.url)

  const make = async (name: string): Promise<Deployment> => {
    const { status, body } = await control.ask<Deployment>('POST', '/v2/deployments', {
      name,
      source: 'internal_source',
      source_config: {},
      source_revision_config: {},
    })
    t.equal(status, 201)
    return body
  }
  const targetOf = async ({ id }: { id: string }): Promise<Target> => {
    const { status, body } = await control.ask<Target>('POST', `/v2/deployments/${id}/upload-url`)
    t.equal(status, 200, JSON.stringify(body))
    return body
  }
  const put = async (url: string, bytes: Bytes | ReadableStream | string, more: object = {}): Promise<Sent> => {
    const headers = { 'content-type': 'application/gzip' }
    const answer = await fetch(url, { method: 'PUT', headers, body: bytes, ...more })
    return { status: answer.status, body: (await answer.json()) as Sent['body'] }
  }
  const build = (id: string, source_tarball_path: string) =>
    control.ask<Deployment & { detail: string }>('PATCH', `/v2/deployments/${id}`, {
      source_revision_config: { source_tarball_path, graph_config_path: 'langgraph.json' },
    })
  /** Uploads, builds, and resolves to how the revision ends. */
  const deploy = async ({ id }: { id: string }, archive: Bytes) => {
    const { upload_url, object_path } = await targetOf({ id })
    t.match(await put(upload_url, archive), { status: 200, body: { size: archive.length } })
    const { status, body } = await build(id, object_path)
    t.equal(status, 200, body.detail)
    return control.over(body)
  }
  const changed = (url: string, change: (url: URL) => void): string => {
    const parsed = new URL(url)
    change(parsed)
    return parsed.href
  }

  await t.test('a deployment without an upload has no revision, and can be deleted', async t => {
    const { id, latest_revision_id, active_revision_id, status } = await make('empty')
    t.match(
      { latest_revision_id, active_revision_id, status },
      {
        latest_revision_id: null,
        active_revision_id: null,
        status: 'READY',
      },
    )
    t.match(await control.ask('GET', `/v2/deployments/${id}/revisions`), { body: { resources: [] } })
    const { body } = await control.ask<Deployment>('PATCH', `/v2/deployments/${id}`, {
      source_config: { install_command: 'true' },
    })
    t.equal(body.latest_revision_id, null)
    for (const [patch, detail] of [
      [{ secrets: [{ name: 'A', value: 'b' }] }, /source_tarball_path is required for the first revision/],
      [{ source_revision_config: { graph_config_path: 'a.json' } }, /source_tarball_path is required for the first/],
      [{ source_revision_config: { repo_ref: 'main' } }, /repo_ref must be null for source internal_source/],
      [{ source_revision_config: { image_uri: 'a/b:c' } }, /image_uri must be null for source internal_source/],
      [{ source_config: { repo_url: 'https://example.org/a' } }, /repo_url cannot be changed after creation/],
      [{ source_config: { build_on_push: true } }, /build_on_push must be null for source internal_source/],
    ] as const)
      t.match(await control.ask('PATCH', `/v2/deployments/${id}`, patch), { status: 400, body: { detail } })
    t.match(await control.ask('POST', `/v2/deployments/${id}/revisions`, {}), { status: 400 })
    t.equal((await control.remove(id)).status, 204)
    t.equal((await control.ask('GET', `/v2/deployments/${id}`)).status, 404)
  })

  await t.test('members of other sources', async t => {
    const create = (more: object) =>
      control.ask('POST', '/v2/deployments', {
        name: 'other',
        source: 'internal_source',
        source_config: {},
        source_revision_config: {},
        ...more,
      })
    const git = {
      source: 'github',
      source_config: { repo_url: 'https://example.org/a', deployment_type: 'dev_zero' },
      source_revision_config: { repo_ref: 'main', graph_config_path: 'langgraph.json' },
    }
    t.match(await create(git), {
      status: 422,
      body: { detail: [{ loc: ['body', 'source_config', 'deployment_type'] }] },
    })
    const path = 'uploads/a/b.tar.gz'
    t.match(await create({ source_revision_config: { source_tarball_path: path } }), {
      status: 400,
      body: { detail: /source_tarball_path must be null when/ },
    })
    for (const source of ['internal_docker', 'internal_template'])
      t.match(await create({ source }), { status: 400, body: { detail: /has no registry: langgraph deploy --remote/ } })
    t.match(await create({ source_config: { custom_url: 'https://example.org' } }), { status: 400 })
    t.match(await create({ source_config: { listener_id: '0198aaaa-0000-7000-8000-000000000001' } }), { status: 400 })
    t.match(await create({ source_config: { resource_spec: { volumes: [{ name: 'v', emptyDir: {} }] } } }), {
      status: 400,
    })
  })

  const one = await make('one')
  const other = await make('other')

  await t.test('an address takes its own upload only', async t => {
    const archive = archiveOf(application('one'))
    const { upload_url } = await targetOf(one)
    const refused = { status: 403, body: { detail: /signature is not that of this URL/ } }
    const uuid = '0198aaaa-0000-7000-8000-000000000001'
    for (const url of [
      changed(upload_url, url => url.searchParams.set('signature', '0'.repeat(64))),
      changed(upload_url, url => url.searchParams.set('signature', 'é')),
      changed(upload_url, url => url.searchParams.delete('signature')),
      changed(upload_url, url => url.searchParams.delete('expires')),
      changed(upload_url, url => url.searchParams.set('expires', `${Number(url.searchParams.get('expires')) + 1}`)),
      changed(upload_url, url => (url.pathname = url.pathname.replace(one.id, other.id))),
      changed(upload_url, url => (url.pathname = url.pathname.replace(/[^/]+$/, uuid))),
    ])
      t.match(await put(url, archive), refused, url)
    t.equal(
      (
        await put(
          changed(upload_url, url => (url.pathname += '/x')),
          archive,
        )
      ).status,
      404,
    )

    // The server signs it in the same way, at another time.
    const [, , , id, , upload_id] = new URL(upload_url).pathname.split('/')
    const signed = (expires: number) => {
      const [signature] = openRing(ENCRYPTION_KEY).prints(`upload ${id} ${upload_id} ${expires}`)
      return `${cluster.url}/v2/deployments/${id}/uploads/${upload_id}?expires=${expires}&signature=${signature}`
    }
    const now = Math.floor(Date.now() / 1_000)
    t.match(await put(signed(now - 10), archive), { status: 403, body: { detail: /has expired/ } })
    t.match(await put(signed(now + 10), archive), { status: 200, body: { size: archive.length } })
    t.match(await put(signed(now + 20), archive), { status: 409, body: { detail: /used already/ } }, 'only once')
    t.match(await put(upload_url, archiveOf(application('evil'))), { status: 409 })
    t.equal((await fetch(upload_url)).status, 405)
  })

  await t.test('a push token is refused in words that langgraph deploy knows', async t => {
    const path = `/v2/deployments/${one.id}/push-token`
    t.match(await control.ask('POST', path, { supports_registry_username: true }), {
      status: 400,
      body: { detail: /only available for 'internal_docker' source deployments, and this server has no registry: / },
    })
    const unknown = '/v2/deployments/0198aaaa-0000-7000-8000-000000000001/push-token'
    t.equal((await control.ask('POST', unknown)).status, 404)
    t.equal((await fetch(`${cluster.url}${path}`, { method: 'POST' })).status, 401)
  })

  await t.test('who may ask for an address', async t => {
    const path = `/v2/deployments/${one.id}/upload-url`
    t.equal((await fetch(`${cluster.url}${path}`, { method: 'POST' })).status, 401)
    const page = { origin: 'https://evil.example', 'x-api-key': 'control-key-of-the-tests' }
    t.equal((await fetch(`${cluster.url}${path}`, { method: 'POST', headers: page })).status, 403)
    const unknown = '/v2/deployments/0198aaaa-0000-7000-8000-000000000001/upload-url'
    t.equal((await control.ask('POST', unknown)).status, 404)
    const { upload_url } = await targetOf(one)
    const headers = { origin: 'https://evil.example' }
    t.equal((await fetch(upload_url, { method: 'PUT', body: 'x', headers })).status, 403, 'no page of another origin')
  })

  await t.test('a body that is too large, empty, or breaks off leaves nothing', async t => {
    t.match(await put((await targetOf(one)).upload_url, ''), { status: 400, body: { detail: /The body is empty/ } })
    const endless = () => {
      let left = 6
      return new ReadableStream({
        pull: controller => (left-- > 0 ? controller.enqueue(randomBytes(MB)) : controller.close()),
      })
    }
    const { upload_url } = await targetOf(one)
    const refused = { status: 413, body: { detail: /larger than 4 MB/ } }
    t.match(await put(upload_url, endless(), { duplex: 'half' }), refused, 'announced by no length')
    t.match(await put((await targetOf(one)).upload_url, randomBytes(5 * MB)), refused, 'announced by its length')
    // The command reads the answer after it has sent all, on a connection that it does not use again.
    const wrong = changed(upload_url, url => url.searchParams.set('signature', 'wrong'))
    const status = await new Promise((resolve, reject) => {
      const headers = { connection: 'close', 'content-length': 4 * MB }
      const sending = request(wrong, { method: 'PUT', agent: false, headers }, answer => resolve(answer.statusCode))
      sending.on('error', reject)
      sending.write(randomBytes(2 * MB), () => setTimeout(() => sending.end(randomBytes(2 * MB)), 300))
    })
    t.equal(status, 403)

    const { upload_url: broken } = await targetOf(one)
    await new Promise<void>(done => {
      const sending = request(broken, { method: 'PUT', headers: { 'content-length': 3 * MB } })
      sending.on('error', () => done())
      sending.write(randomBytes(2 * MB), () => setTimeout(() => sending.destroy(new Error('the client leaves')), 200))
    })
    // It is removed, so the address may be used once more.
    await until(async () => (await put(broken, archiveOf(application('one')))).status === 200)
  })

  await t.test('a connection is used again after an upload', async t => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    t.teardown(() => agent.destroy())
    const send = (url: string, method: string, bytes?: Buffer) =>
      new Promise<[status: number, port: number]>((resolve, reject) => {
        const headers = bytes === undefined ? {} : { 'content-length': bytes.length }
        const sending = request(url, { method, agent, headers }, (answer: IncomingMessage) => {
          answer.resume()
          answer.on('end', () => resolve([answer.statusCode!, sending.socket!.localPort!]))
        })
        sending.on('error', reject)
        sending.end(bytes)
      })
    const { upload_url } = await targetOf(other)
    const [stored, port] = await send(upload_url, 'PUT', gzipSync(randomBytes(3 * MB)))
    t.equal(stored, 200)
    t.same(await send(`${cluster.url}/ok`, 'GET'), [200, port])
    const wrong = changed(upload_url, url => url.searchParams.set('signature', 'wrong'))
    t.same(await send(wrong, 'PUT', randomBytes(3 * MB)), [403, port], 'the answer to a refused upload is read')
    t.same(await send(`${cluster.url}/ok`, 'GET'), [200, port])
  })

  await t.test('a revision is made of an upload of its own deployment', async t => {
    const { upload_url, object_path } = await targetOf(other)
    const refused = { status: 400, body: { detail: /names no upload of this deployment/ } }
    t.match(await build(other.id, object_path), refused, 'nothing was sent yet')
    t.equal((await put(upload_url, archiveOf(application('other')))).status, 200)
    t.match(await build(one.id, object_path), refused, 'that of another deployment')
    for (const path of [
      object_path.replace(other.id, one.id),
      `uploads/${one.id}/../${other.id}/x.tar.gz`,
      '../../etc/passwd',
      'x',
      `${object_path}\n`,
      object_path.toUpperCase(),
    ])
      t.match(await build(one.id, path), refused, path)
    t.equal((await control.get(one.id)).latest_revision_id, null)
    const tooLong = { source_revision_config: { source_tarball_path: 'x'.repeat(2_000) } }
    t.equal((await control.ask('PATCH', `/v2/deployments/${one.id}`, tooLong)).status, 422)
    const no = { source_revision_config: { source_tarball_path: object_path } }
    t.match(await control.ask('PATCH', `/v2/deployments/${other.id}`, no), {
      status: 400,
      body: { detail: /graph_config_path is required/ },
    })
  })

  await t.test('an upload is built and served; the same files are the same artefact', async t => {
    const files = application('served')
    const payload = { 'data/random.bin': randomBytes(MB).toString('base64') }
    const first = await deploy(one, archiveOf({ ...files, ...payload }))
    t.equal(first.status, 'DEPLOYED', first.status_message ?? '')
    t.match(first, { source: 'internal_source', source_revision_config: { repo_commit_sha: null } })
    const ask = () => lines[0]!.connect(control.urlOf(one)).runs.wait(null, 'agent', { input: { text: 'x' } })
    t.match(await ask(), { answer: 'served x' })
    const second = await deploy(one, archiveOf({ ...payload, ...files }, [{ path: 'data/', type: '5' }]))
    t.equal(second.status, 'DEPLOYED', second.status_message ?? '')
    t.match((await control.buildLog(one.id, second.id)).join('\n'), /artefact [0-9a-f]{64} exists already/)

    // The archive of the latest upload.
    const { body } = await control.ask<Deployment>('PATCH', `/v2/deployments/${one.id}`, {
      secrets: [{ name: 'TOKEN', value: 'a-secret-value' }],
    })
    t.equal(body.source_revision_config.source_tarball_path, second.source_revision_config.source_tarball_path)
    t.equal((await control.over(body)).status, 'DEPLOYED')
  })

  const HOSTILE: [title: string, archive: Bytes, message: RegExp][] = [
    ['a truncated archive', archiveOf(application('x')).subarray(0, 200), /no complete gzip archive/],
    ['no archive', Buffer.from('{}'), /no complete gzip archive/],
    ['a path out', archiveOf({}, [{ path: '../../escape', text: 'x' }]), /leads out of the archive/],
    ['a link out', archiveOf({}, [{ path: 'l', type: '2', link: '/etc' }]), /links are not taken/],
    ['a bomb', gzipSync(tarOf([{ path: 'z', text: '\0' }]).subarray(0, 512)), /no tar archive/],
    ['no langgraph.json', archiveOf({ 'a.txt': 'x' }), /has no langgraph\.json/],
  ]
  for (const [title, archive, message] of HOSTILE)
    await t.test(`${title} ends as BUILD_FAILED`, async t => {
      const revision = await deploy(one, archive)
      t.match(revision, { status: 'BUILD_FAILED', status_message: message })
    })

  await t.test('uploads that no revision uses are limited', async t => {
    const many = await make('many')
    const targets: Target[] = []
    for (let i = 0; i < 8; i++) {
      targets.push(await targetOf(many))
      t.equal((await put(targets[i]!.upload_url, archiveOf({ 'a.txt': `${i}` }))).status, 200)
    }
    t.match(await control.ask('POST', `/v2/deployments/${many.id}/upload-url`), {
      status: 429,
      body: { detail: /8 uploads that no revision uses/ },
    })
    t.equal((await build(many.id, targets[0]!.object_path)).status, 200)
    await targetOf(many)
    t.equal((await control.remove(many.id)).status, 204)
    await until(async () => (await control.ask('GET', `/v2/deployments/${many.id}`)).status === 404)
    t.equal((await put(targets[1]!.upload_url, 'x')).status, 404)
  })
})
