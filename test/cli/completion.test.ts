/** `weft complete` in the shells: every command, flag and choice, and names of files elsewhere. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import t from 'tap'
import { makeProgram } from '../../cli/program.js'
import { root } from '../../cli/root.js'
import { commandLines } from '../helpers/command-lines.js'

t.setTimeout(120_000)
const bin = mkdtempSync(join(tmpdir(), 'weft-bin-'))
t.teardown(() => rmSync(bin, { recursive: true, force: true }))
const weft = join(root, 'dist/cli/weft.js')
writeFileSync(join(bin, 'weft'), `#!/bin/sh\nexec "${process.execPath}" "${weft}" "$@"\n`, { mode: 0o755 })
const env = { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH}` }
const isInstalled = (shell: string) => spawnSync(shell, ['--version']).status === 0

/** The completions of a shell, by the line. */
type Offers = (lines: readonly string[]) => { [line: string]: string[] }

function run(shell: string, args: string[], script: string): string {
  const { status, stdout, stderr } = spawnSync(shell, [...args, '-c', script], { env, encoding: 'utf8' })
  if (status !== 0 || stderr !== '') throw new Error(`${shell} ended with ${status}: ${stderr}`)
  return stdout
}

/** Set like this by the package bash-completion; two times, as a person reads ~/.bashrc again. */
const BASH = `_get_comp_words_by_ref() { words=("\${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=\${words[cword]}; prev=\${words[cword-1]}; }
compopt() { :; }
source <(weft complete bash)
source <(weft complete bash)
offer() {
  read -ra COMP_WORDS <<< "$1"
  [[ $1 == *' ' ]] && COMP_WORDS+=('')
  COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)) COMPREPLY=()
  __weft_complete
  printf '%s\\n' "= $1" "\${COMPREPLY[@]}"
}
`
const offersOf = (output: string) =>
  Object.fromEntries(
    output
      .split(/^= /m)
      .slice(1)
      .map(part => {
        const [line = '', ...words] = part.split('\n')
        return [line, words.filter(Boolean).map(word => word.split('\t')[0]!)]
      }),
  )
const quoted = (line: string) => `'${line}'`
const SHELLS: { readonly [shell: string]: Offers } = {
  bash: lines =>
    offersOf(run('bash', ['--norc', '--noprofile'], BASH + lines.map(line => `offer ${quoted(line)}`).join('\n'))),
  fish: lines =>
    offersOf(
      run(
        'fish',
        ['--no-config'],
        `weft complete fish | source\n${lines.map(line => `echo '= ${line}'; complete --do-complete ${quoted(line)}`).join('\n')}`,
      ),
    ),
}

/** A line, and what must be offered for it. */
const expected = new Map<string, string[]>()
const program = makeProgram()
for (const [name, { options }] of commandLines(program)) {
  expected.set(
    `weft ${name} --`,
    options.map(({ long }) => long!),
  )
  for (const { long, argChoices } of options)
    if (argChoices !== undefined) expected.set(`weft ${name} ${long} `, [...argChoices])
  const [group, ...rest] = name.split(' ')
  const before = rest.length > 0 ? `weft ${group} ` : 'weft '
  expected.set(before, [...(expected.get(before) ?? []), rest[0] ?? group!])
}
expected.set('weft complete ', ['bash', 'zsh', 'fish', 'powershell'])
expected.set('weft help thr', ['threads'])
expected.set('weft runs list --status su', ['success'])

for (const [shell, offers] of Object.entries(SHELLS))
  t.test(
    `${shell} offers every command, flag and choice`,
    { skip: !isInstalled(shell) && 'not installed' },
    async t => {
      const found = offers([...expected.keys()])
      for (const [line, words] of expected)
        t.same(
          words.filter(word => !found[line]?.includes(word)),
          [],
          line,
        )
      t.ok([...expected.values()].flat().length > 150)
    },
  )

t.test('a position without words takes the name of a file', async t => {
  const lines = (...words: string[]) =>
    spawnSync('weft', ['complete', '--', ...words], { env, encoding: 'utf8' }).stdout
  for (const words of [
    ['deploy', ''],
    ['start', '--app', './'],
    ['restore', 'x'],
  ])
    t.equal(lines(...words), ':0\n', `${words}`)
  t.match(lines('keys', ''), /:4\n$/)
  t.match(run('bash', ['--norc', '--noprofile'], 'source <(weft complete bash); complete -p weft'), /-o default /)
})

t.test('zsh reads its script', { skip: !isInstalled('zsh') && 'not installed' }, async t => {
  t.match(
    run('zsh', ['-f'], 'autoload -Uz compinit; compinit -u -D; source <(weft complete zsh); whence -w _weft'),
    /_weft: function/,
  )
})
