/** A real browser for the tests: the machine's Chromium, and pages bundled from an SDK line. */
import { spawnSync } from 'node:child_process'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { build } from 'esbuild'
import { type Browser, chromium } from 'playwright-core'
import { root } from '../../cli/root.js'

/** The first starts with a third of the CPU time of the others. */
const NAMES = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']

/** Starts Chromium; throws one sentence that names the choices when it is missing. */
export async function openBrowser(): Promise<Browser> {
  const named = process.env.CHROMIUM_PATH
  const found = [...(named ? [named] : []), ...NAMES].find(name => spawnSync(name, ['--version']).status === 0)
  if (found === undefined)
    throw new Error(
      'the tests in a browser need Chromium: install it (Debian: apt-get install chromium-headless-shell), or name one by ' +
        'CHROMIUM_PATH, or leave these tests out with ./scripts/test --without-browser',
    )
  const executablePath = found.includes('/') ? found : spawnSync('which', [found]).stdout.toString().trim()
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] })
}

export interface Pages {
  /** The URL of the page of an SDK line. */
  url(alias: string): string
  close(): void
}

/** The page of `@langchain/react`, whose hook is another one. */
export const LANGCHAIN_REACT = 'langchain-react'

/** Bundles test/browser/page.mjs with `useStream` of each line, or langchain-react.mjs, and serves them from a separate origin. */
export async function servePages(aliases: readonly string[]): Promise<Pages> {
  const scripts = new Map<string, string>()
  for (const alias of aliases) {
    const { outputFiles } = await build({
      stdin: {
        contents:
          alias === LANGCHAIN_REACT
            ? `import './langchain-react.mjs'`
            : `import { useStream } from '${alias}/react'; import { start } from './page.mjs'; start(useStream)`,
        resolveDir: join(root, 'test/browser'),
      },
      bundle: true,
      write: false,
      format: 'esm',
      logLevel: 'error',
      nodePaths: [join(root, 'test/sdk/node_modules')],
      define: { 'process.env.NODE_ENV': '"production"' },
    })
    scripts.set(`/${alias}.js`, outputFiles[0]!.text)
  }
  const server = createServer(({ url = '' }, response) => {
    const path = url.split('?', 1)[0]!
    const script = scripts.get(path)
    response.setHeader('content-type', script === undefined ? 'text/html' : 'text/javascript')
    response.end(script ?? `<!doctype html><div id="root"></div><script type="module" src="${path}.js"></script>`)
  })
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  const { port } = server.address() as AddressInfo
  return { url: alias => `http://127.0.0.1:${port}/${alias}`, close: () => server.close() }
}
