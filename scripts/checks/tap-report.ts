/**
 * Counts the tests in the TAP output of one test file and describes each failure. A test is a `t.test` that contains
 * its own assertions; assertions at the top level of the file count as one more test.
 */
import { inspect } from 'node:util'
import { Parser, type Result } from 'tap-parser'

export interface Counts {
  passed: number
  failed: number
  skipped: number
}

export interface TapReport extends Counts {
  /** One text per failure: the names of the tests around it, the assertion, and tap's diagnosis. */
  failures: string[]
}

interface Frame {
  path: readonly string[]
  assertions: number
  failures: number
  parent: Frame | null
}

const MAX_LINES = 60

/** `name` is the file's name in the descriptions of failures. */
export function tapReader(name: string): { write(part: Uint8Array): void; end(): TapReport } {
  const report: TapReport = { passed: 0, failed: 0, skipped: 0, failures: [] }
  const root: Frame = { path: [name], assertions: 0, failures: 0, parent: null }
  const parser = new Parser()

  function read(tests: Parser, frame: Frame): void {
    let open: Frame | null = null
    tests.on('child', (child: Parser) => {
      open = { path: [...frame.path, child.name], assertions: 0, failures: 0, parent: frame }
      read(child, open)
    })
    tests.on('assert', (result: Result) => {
      if (open !== null && result.closingTestPoint) {
        close(open, result)
        open = null
      } else if (result.skip) report.skipped++
      else if (!result.todo) {
        frame.assertions++
        if (!result.ok) addFailure(frame, result.name, result.diag)
      }
    })
    tests.on('complete', () => {
      if (open === null) return
      report.failed++
      addFailure(open, 'did not end')
    })
  }

  function close(frame: Frame, { ok, diag }: { ok: boolean; diag?: unknown }): void {
    if (!ok && frame.failures === 0) {
      // It failed by itself: a plan that was not met, a timeout, a crash.
      addFailure(frame, 'failed', diag)
      report.failed++
    } else if (frame.assertions > 0) frame.failures > 0 ? report.failed++ : report.passed++
  }

  function addFailure(frame: Frame, what: string, diag?: unknown): void {
    for (let one: Frame | null = frame; one !== null; one = one.parent) one.failures++
    report.failures.push([[...frame.path, what].join(' > '), ...diagnosis(diag)].join('\n'))
  }

  read(parser, root)
  return {
    write: part => void parser.write(part),
    end() {
      parser.end()
      close(root, { ok: true })
      return report
    },
  }
}

/** Tap's diagnosis as lines: what differs and where; the source lines are left out. */
function diagnosis(diag: unknown): string[] {
  if (typeof diag !== 'object' || diag === null) return []
  const { diff, stack, at, source: _, ...others } = diag as { [key: string]: unknown }
  const place = at as { fileName?: string; lineNumber?: number; columnNumber?: number } | undefined
  const where = stack ?? (place && `${place.fileName}:${place.lineNumber}:${place.columnNumber}`)
  const rest = Object.keys(others).length > 0 ? inspect(others, { depth: 6, maxStringLength: 2_000 }) : ''
  const lines = [where, diff, rest].filter(Boolean).flatMap(text => `${text}`.trimEnd().split('\n'))
  return lines.slice(0, MAX_LINES)
}
