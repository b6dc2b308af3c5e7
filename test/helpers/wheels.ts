/** Packages of Python for tests that install something: pip and uv take them without a network. */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

const WHEEL = `
import json, sys, zipfile
folder, name, version, files = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
info = f"{name}-{version}.dist-info"
with zipfile.ZipFile(f"{folder}/{name}-{version}-py3-none-any.whl", "w") as wheel:
    for path, text in files.items():
        wheel.writestr(path, text)
    wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr(f"{info}/RECORD", "")
`

/** Writes a wheel with these files into the folder. */
export function makeWheel(folder: string, name: string, version: string, files: { [path: string]: string } = {}): void {
  const content = Object.keys(files).length === 0 ? { [`${name}/__init__.py`]: '' } : files
  execFileSync('python3', ['-c', WHEEL, folder, name, version, JSON.stringify(content)])
}

/** A `langgraph` that is the one of another environment: nothing is downloaded, and it is complete. */
export function makeLinkedWheel(folder: string, python: string): void {
  const code =
    'import sysconfig; from importlib.metadata import version; print(sysconfig.get_path("purelib"), version("langgraph"))'
  const [place, version] = execFileSync(python, ['-c', code], { encoding: 'utf8' }).trim().split(' ')
  makeWheel(folder, 'langgraph', version!, { 'linked.pth': `${place}\n` })
}

/** Variables with which installers take packages from the folder alone. */
export const wheelEnv = (folder: string) => ({
  PIP_NO_INDEX: '1',
  PIP_FIND_LINKS: folder,
  // Without a network, and without what was downloaded before.
  UV_OFFLINE: '1',
  UV_CACHE_DIR: join(folder, 'uv-cache'),
  UV_FIND_LINKS: folder,
})
