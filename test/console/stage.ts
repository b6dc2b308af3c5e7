/**
 * The console in a browser, before a server with the example application. Every page of a test file uses the same server
 * and the same browser.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { root } from '../../cli/root.js'
import { openBrowser } from '../browser/browser.js'
import { type Cluster, startCluster, type TestServer } from '../helpers/cluster.js'

export interface Stage<Server extends TestServer = Cluster> {
  cluster: Server
  browser: Browser
  /** Errors that the pages logged since the last call: uncaught errors, and violations of the content policy. */
  errors(): string[]
  /** A page of the console in a context of its own; `path` begins with "/". */
  open(path: string, options?: BrowserContextOptions): Promise<Page>
  close(): Promise<void>
}

/** Screenshots of the pages, for a person to look at. */
const artefacts = join(root, '.tap/console')
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const WAIT_MS = 10_000

/** `app`: another application than the example. */
export const openStage = (env: { [name: string]: string } = {}, app?: string): Promise<Stage> =>
  openStageWith(() => startCluster({ env, ...(app === undefined ? {} : { app }) }))

/** Before a server that `start` starts. */
export async function openStageWith<Server extends TestServer>(start: () => Promise<Server>): Promise<Stage<Server>> {
  // Does nothing when the bundle is that of the sources.
  const built = spawnSync(process.execPath, [join(root, 'scripts/build-console.mjs')], { stdio: 'inherit' })
  if (built.status !== 0) throw new Error('the console could not be built')
  mkdirSync(artefacts, { recursive: true })
  const [cluster, browser] = await Promise.all([start(), openBrowser()])
  let errors: string[] = []
  return {
    cluster,
    browser,
    errors() {
      const found = errors
      errors = []
      return found
    },
    async open(path, options = {}) {
      const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options })
      const page = await context.newPage()
      page.setDefaultTimeout(WAIT_MS)
      page.on('console', message => void (message.type() === 'error' && errors.push(message.text())))
      page.on('pageerror', error => void errors.push(error.message))
      await page.goto(`${cluster.url}/console#${path}`)
      return page
    },
    async close() {
      await browser.close()
      await cluster.stop()
    },
  }
}

/** Defects of accessibility that axe-core calls serious or critical, one line each. */
export async function seriousDefects(page: Page): Promise<string[]> {
  // The content policy has no inline script; this is evaluated by the debugger, which it does not concern.
  await page.evaluate(axe)
  const found = (await page.evaluate('axe.run()')) as {
    violations: { id: string; impact: string; nodes: { html: string }[] }[]
  }
  return found.violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`))
}

/** A screenshot in `artefacts`, unless everything is tested: its files are many, and nobody looks at them then. */
export async function shoot(page: Page, name: string): Promise<void> {
  if (process.env.WEFT_TEST_SCREENSHOTS) await page.screenshot({ path: join(artefacts, `${name}.png`) })
}

/** Desktop and phone, light and dark: four screenshots of the page as it is. */
export async function photograph(page: Page, name: string): Promise<void> {
  for (const [size, viewport] of Object.entries(SIZES))
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.setViewportSize(viewport)
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      await shoot(page, `${name}-${size}-${colorScheme}`)
    }
  await page.setViewportSize(SIZES.desktop)
  await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'no-preference' })
}

const SIZES = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } }
