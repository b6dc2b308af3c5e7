import t from 'tap'
import { checkCitations } from '../../scripts/checks/citations.js'

t.test('comments cite pages and decisions of the repository', async t => {
  t.same(checkCitations(), [])
})

t.test('a citation of what is not there is caught, with file and line', async t => {
  // In two parts, so that this file has none of them.
  const elsewhere = (document: string, section: string) => `${document} ${section}`
  const folder = t.testdir({
    docs: {
      spec: { 'runs.md': '# Runs\n\n## Wait and join\n' },
      decisions: { runs: { '006-event-ids.md': '# 006\n' } },
    },
    bus: {
      'good.ts': '// docs/spec/runs.md#wait-and-join, docs/spec/runs.md, decision 006, Control plane 2\n',
      'heading.ts': '\n// docs/spec/runs.md#cancel\n',
      'page.ts': '// docs/spec/threads.md\n',
      'source.ts': '// bus/page.ts, workers/gone.ts\n',
      'fragment.ts': `/*${'*'} Of a thread. */\n/*${'*'}\n * Those of a run. */\n/*${'*'} The rest of it. */\n/*${'*'} What it does. */\n`,
      'decision.ts': `// ${elsewhere('decision', '999')}\n`,
    },
    workers: {
      'host.py': `# (${elsewhere('reliability', '2.3')})\n`,
      'run.ts': `/**\n * The order of ${elsewhere('API', 'threads-and-runs')} 8.1, and ${elsewhere('Design', '7')}.\n */\n`,
    },
  })
  t.same(checkCitations(folder), [
    `bus/decision.ts:1: there is no ${elsewhere('decision', '999')}`,
    'bus/fragment.ts:1: "Of …": begin with the subject',
    'bus/fragment.ts:2: "Those …": begin with the subject',
    'bus/fragment.ts:5: "What …": begin with the subject',
    'bus/heading.ts:2: docs/spec/runs.md has no heading #cancel',
    'bus/page.ts:1: there is no docs/spec/threads.md',
    'bus/source.ts:1: there is no workers/gone.ts',
    `workers/host.py:1: "${elsewhere('reliability', '2')}": cite a page of docs/, or a decision`,
    `workers/run.ts:2: "${elsewhere('API', 'threads-and-runs')}": cite a page of docs/, or a decision`,
    `workers/run.ts:2: "${elsewhere('Design', '7')}": cite a page of docs/, or a decision`,
  ])
})
