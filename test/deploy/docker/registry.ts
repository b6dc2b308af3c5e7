/** A registry with images of one layer (OCI distribution specification). Everything else is unknown to it. */
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Registry {
  /** Its address: the part of a name of an image before the first slash. */
  address: string
  close(): Promise<void>
}

/** `images`: the configuration of a container for each `name:tag`. `layer`: an archive of their files, not compressed. */
export async function startRegistry(layer: Buffer, images: { [name: string]: object }): Promise<Registry> {
  const blobs = new Map<string, { type: string; bytes: Buffer }>()
  const keep = (type: string, bytes: Buffer) => {
    const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`
    blobs.set(digest, { type, bytes })
    return { mediaType: type, digest, size: bytes.length }
  }
  const json = (kind: string, value: object) =>
    keep(`application/vnd.oci.image.${kind}.v1+json`, Buffer.from(JSON.stringify(value)))
  const files = keep('application/vnd.oci.image.layer.v1.tar', layer)
  const tags = new Map<string, string>()
  for (const [name, config] of Object.entries(images)) {
    const rootfs = { type: 'layers', diff_ids: [files.digest] }
    const made = json('config', { os: 'linux', architecture: ARCHITECTURE, config, rootfs })
    const manifest = { schemaVersion: 2, mediaType: MANIFEST, config: made, layers: [files] }
    tags.set(name, json('manifest', manifest).digest)
  }
  const server = createServer((request, response) => {
    const [, name, kind, which = ''] = /^\/v2\/(.+)\/(manifests|blobs)\/(.+)$/.exec(request.url!) ?? []
    const digest = kind === 'manifests' ? (tags.get(`${name}:${which}`) ?? which) : which
    const found = blobs.get(digest)
    if (request.url === '/v2/') response.end('{}')
    else if (found === undefined) {
      const errors = [{ code: kind === 'manifests' ? 'MANIFEST_UNKNOWN' : 'BLOB_UNKNOWN', message: 'unknown' }]
      response.writeHead(404, { 'content-type': 'application/json' }).end(JSON.stringify({ errors }))
    } else {
      const { type, bytes } = found
      const headers = { 'content-type': type, 'docker-content-digest': digest, 'content-length': bytes.length }
      response.writeHead(200, headers).end(request.method === 'HEAD' ? undefined : bytes)
    }
  })
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise(done => {
        server.close(() => done())
        server.closeAllConnections()
      }),
  }
}

const MANIFEST = 'application/vnd.oci.image.manifest.v1+json'
/** The kind of this machine, as engines spell it. */
const ARCHITECTURE = process.arch === 'x64' ? 'amd64' : process.arch
