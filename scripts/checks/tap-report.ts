/**
 * Reads the output of tap line by line: which test files ended how, how many tests there were, and what failed with its
 * details. A test is a `t.test` with assertions of its own; a file without any test is a failure.
 */
export interface Counts {
  passed: number
  failed: number
  skipped: number
}

export interface FileReport extends Counts {
  file: string
  seconds: number
  /** One text per failure: where, what, and tap's diagnosis. */
  failures: string[]
}

interface Frame {
  name: string
  indent: number
  assertions: number
  failures: number
}

const SUBTEST = /^( *)# Subtest: (.*)$/
const POINT = /^( *)(not )?ok \d+(?: - (.*?))?(?: # (SKIP|TODO)\b.*?)?(?: # time=([\d.]+)(ms|s))?$/
const MAX_DETAIL = 60

export function tapReader(onFile: (report: FileReport) => void): (line: string) => void {
  let stack: Frame[] = []
  let report = emptyReport()
  let detail: { indent: number; lines: string[]; done(lines: string[]): void } | null = null

  function point(indent: number, ok: boolean, name: string, directive: string | undefined, ms: number): void {
    // What was open deeper in died without an end of its own.
    while (stack.length > 0 && stack.at(-1)!.indent > indent) closeUnended(stack.pop()!)
    const top = stack.at(-1)
    if (top?.indent === indent && top.name === name) return close(stack.pop()!, ok, directive, ms)
    if (top?.indent === indent) closeUnended(stack.pop()!)
    const open = stack.at(-1)
    if (open === undefined) return
    if (directive === 'SKIP') report.skipped++
    else if (directive === undefined) {
      open.assertions++
      if (!ok) fail(indent, name)
    }
  }

  function fail(indent: number, name: string): void {
    for (const frame of stack) frame.failures++
    const where = stack.map(frame => frame.name).join(' > ')
    const { failures } = report
    const at = failures.push(`${where} > ${name}`) - 1
    detail = { indent: indent + 2, lines: [], done: lines => (failures[at] += `\n${lines.join('\n')}`) }
  }

  function closeUnended(frame: Frame): void {
    report.failed++
    report.failures.push(`${[...stack, frame].map(({ name }) => name).join(' > ')} did not end`)
    for (const one of stack) one.failures++
  }

  function close(frame: Frame, ok: boolean, directive: string | undefined, ms: number): void {
    // It failed by itself: a plan that was not met, a timeout, a crash.
    if (!ok && frame.failures === 0) {
      fail(frame.indent, frame.name)
      frame.failures = 1
      report.failed++
    } else if (frame.assertions > 0) frame.failures > 0 ? report.failed++ : report.passed++
    if (stack.length > 0) return
    if (report.passed + report.failed + report.skipped === 0) {
      report.failed++
      report.failures.push(`${frame.name} holds no tests${directive === undefined ? '' : ` (${directive})`}`)
    }
    const finished = { ...report, file: frame.name, seconds: ms / 1000 }
    report = emptyReport()
    // The details of the file's own failure are still to come.
    if (detail === null) return onFile(finished)
    const { done } = detail
    detail.done = lines => {
      done(lines)
      onFile(finished)
    }
  }

  return line => {
    if (detail !== null) {
      const own = line.slice(detail.indent)
      if (own === '...' || (detail.lines.length === 0 && own !== '---')) {
        const { done, lines } = detail
        detail = null
        done(lines.slice(1, MAX_DETAIL))
        if (own === '...') return
      } else {
        detail.lines.push(own)
        return
      }
    }
    const subtest = SUBTEST.exec(line)
    if (subtest !== null) {
      const frame = { name: subtest[2]!, indent: subtest[1]!.length, assertions: 0, failures: 0 }
      // A file begins: whatever the one before left open is closed.
      if (frame.indent === 0) stack = []
      stack.push(frame)
      return
    }
    const found = POINT.exec(line)
    if (found === null) return
    const [, indent, not, name = '', directive, time, unit] = found
    point(
      indent!.length,
      not === undefined,
      name,
      directive,
      time === undefined ? 0 : Number(time) * (unit === 's' ? 1000 : 1),
    )
  }
}

const emptyReport = (): FileReport => ({ file: '', seconds: 0, passed: 0, failed: 0, skipped: 0, failures: [] })
