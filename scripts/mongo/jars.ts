/**
 * The MongoDB server for tests that comes as Java archives (mongo-java-server with its file backend, BSD): downloaded from
 * Maven Central, or from the mirror that Maven is configured for, checked against the sums below, and compiled together
 * with our own sources. The result is kept in the cache.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { fetchPinned } from '../../cli/fetch-pinned.js'
import { root } from '../../cli/root.js'

const run = promisify(execFile)
const CENTRAL = 'https://repo.maven.apache.org/maven2'
const NETTY = '4.2.2.Final'

/** Group, artifact, version, sha256: what mongo-java-server-h2-backend 1.47.0 needs to serve. */
export const JARS: readonly [group: string, artifact: string, version: string, sha256: string][] = [
  [
    'de.bwaldvogel',
    'mongo-java-server-core',
    '1.47.0',
    '9a34c9ad6ac6261906295481838256033ec1efc8c93a3e3828e5d47a006b0bd4',
  ],
  [
    'de.bwaldvogel',
    'mongo-java-server-h2-backend',
    '1.47.0',
    '58ca6760a25f8a05adfe8a0f7a8a042ca22bd472869028755931507cdce20e71',
  ],
  ['com.h2database', 'h2', '2.3.232', '8dae62d22db8982c3dcb3826edb9c727c5d302063a67eef7d63d82de401f07d3'],
  ['io.netty', 'netty-buffer', NETTY, '4820eeb2d3db269b20b30711e3d7d21979664249aaf10fc67f90dee935810747'],
  ['io.netty', 'netty-codec-base', NETTY, '76987614ccb2fda7d3292b69ba5b61351f30e91bf5c7d8fa4b51bc32c9f67456'],
  ['io.netty', 'netty-common', NETTY, '5d022f3acad74cb0f195f60213500a4000d1340e5e941edaf1a0e756686b9bae'],
  ['io.netty', 'netty-handler', NETTY, 'd4ef582c78125457baa0cfa52992b5fb1bb9172d1a2c03b726e8b26e17d3fe2c'],
  ['io.netty', 'netty-resolver', NETTY, 'fa7841ffe2e39d52251814fb8560d6936b10ae7c67453ee50426b83fd5170ba0'],
  ['io.netty', 'netty-transport', NETTY, '116d766a1af4722fe76a4cdaed969644985d44e08ec1337d2dbab697dd109603'],
  [
    'io.netty',
    'netty-transport-native-unix-common',
    NETTY,
    'aa8821a7ea2ca47f62740bd1f37d67deb97824cc77e76dde6ae2c439a923fc9d',
  ],
  ['org.slf4j', 'slf4j-api', '2.0.17', '7b751d952061954d5abfed7181c1f645d336091b679891591d63329c622eb832'],
]

/** Name and version of the server. */
export const JAVA_SERVER = `mongo-java-server ${JARS[0]![2]}`

/** In test/mongo. Their classes come before those of the archives. */
const SOURCES = [
  'WeftTestMongo.java',
  'IndexedCollection.java',
  'OrderedIndex.java',
  'Matcher.java',
  'IdIndex.java',
  'StoredTypes.java',
  'VectorSearch.java',
  'BsonDecoder.java',
]

export interface JarOptions {
  cache: string
  env: NodeJS.ProcessEnv
  log(line: string): void
  /** Base URL of the archives, instead of the one that Maven is configured for. */
  repository?: string
  /** It serves a long load: the code is compiled for speed, which takes CPU time at first. */
  lasting?: boolean
}

/** Only the fast compiler of Java: a test is over before the code of the other one would pay. */
const BRIEF = ['-Xmx768m', '-XX:TieredStopAtLevel=1']
const LASTING = ['-Xmx1g']

/** The server's command without its file and port; null without a JDK. Throws when an archive is refused. */
export async function javaServer({
  cache,
  env,
  log,
  repository,
  lasting = false,
}: JarOptions): Promise<string[] | null> {
  for (const tool of ['java', 'javac'])
    if (
      !(await run(tool, ['-version'], { env }).then(
        () => true,
        () => false,
      ))
    )
      return null
  const sources = SOURCES.map(name => join(root, 'test/mongo', name))
  const sum = createHash('sha256').update(JSON.stringify(JARS))
  for (const source of sources) sum.update(readFileSync(source))
  const version = sum.digest('hex')
  const folder = join(cache, `mongo-java-server-${version.slice(0, 16)}`)
  if (!existsSync(folder)) await make(folder, sources, { cache, env, log, repository })
  return ['java', '-XX:+UseSerialGC', ...(lasting ? LASTING : BRIEF), '-cp', classPath(folder), 'WeftTestMongo']
}

const fileOf = (artifact: string, version: string): string => `${artifact}-${version}.jar`
const classPath = (folder: string): string =>
  [folder, ...JARS.map(([, artifact, version]) => join(folder, fileOf(artifact, version)))].join(delimiter)

/** Moved into place by a rename: two processes may do it at the same time. */
async function make(folder: string, sources: string[], { cache, env, log, repository }: JarOptions): Promise<void> {
  mkdirSync(cache, { recursive: true })
  const made = mkdtempSync(join(cache, 'getting-'))
  try {
    const from = repository ?? repositoryOf(env)
    log(`getting mongo-java-server from ${new URL(from).host}`)
    await Promise.all(
      JARS.map(async ([group, artifact, version, sha256]) => {
        const name = fileOf(artifact, version)
        writeFileSync(
          join(made, name),
          await fetchPinned(`${from}/${group.replaceAll('.', '/')}/${artifact}/${version}/${name}`, sha256),
        )
      }),
    )
    // Without a locale it reads ASCII.
    await run('javac', ['-encoding', 'UTF-8', '-cp', classPath(made), '-d', made, ...sources], { env })
    try {
      renameSync(made, folder)
    } catch (error) {
      if (!existsSync(folder)) throw error
    }
  } finally {
    rmSync(made, { recursive: true, force: true })
  }
}

/** The mirror of Maven Central in the settings of Maven; Central itself when there is none. */
export function repositoryOf(env: NodeJS.ProcessEnv): string {
  for (const file of [
    join(env.HOME || homedir(), '.m2/settings.xml'),
    join(env.MAVEN_HOME || '/usr/share/maven', 'conf/settings.xml'),
  ]) {
    let text: string
    try {
      text = readFileSync(file, 'utf8').replace(/<!--[\s\S]*?-->/g, '')
    } catch {
      continue
    }
    for (const [, mirror] of text.matchAll(/<mirror>([\s\S]*?)<\/mirror>/g)) {
      const of = /<mirrorOf>\s*([^<]*?)\s*<\/mirrorOf>/.exec(mirror!)?.[1] ?? ''
      const url = /<url>\s*([^<\s]+)\s*<\/url>/.exec(mirror!)?.[1]
      if (url && of.split(',').some(one => ['*', 'central', 'external:*'].includes(one.trim())))
        return url.replace(/\/$/, '')
    }
  }
  return CENTRAL
}
