/** Takes secrets out of text that people will read: logs of builds and deployments, messages (API: control-plane 13). */
import type { Deps } from '../context.js'
import { secretsOf } from './text.js'

/** Shorter values would take half of every word with them. */
const SHORTEST = 6
const GONE = '[redacted]'
/** `scheme://user:password@` and `scheme://token@`. */
const USERINFO = /\b([a-z][a-z0-9+.-]*:\/\/)[^\s/@"'<>]+@/gi
/** Tokens that are known by their looks: GitHub, GitLab, npm, Slack, AWS, OpenAI and the like, LangSmith, JWTs, our own key. */
const TOKENS =
  /\b(gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|npm_[A-Za-z0-9]{30,}|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|sk-[\w-]{20,}|lsv2_\w{20,}|weft_[\w-]{40,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,})/g

export type Redact = (text: string) => string

/** Also finds the values as JSON, as part of a URL, in base64, and line by line. */
export function openRedactor(values: readonly string[]): Redact {
  const wanted = new Set<string>()
  for (const value of values.filter(one => one.length >= SHORTEST)) {
    for (const form of [value, ...value.split(/\r?\n/).map(line => line.trim())])
      if (form.length >= SHORTEST) {
        wanted.add(form)
        wanted.add(JSON.stringify(form).slice(1, -1))
        wanted.add(encodeURIComponent(form))
      }
    wanted.add(Buffer.from(value).toString('base64').replace(/=+$/, ''))
  }
  // The longest first: a value may hold another one.
  const forms = [...wanted].sort((a, b) => b.length - a.length).map(form => form.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
  const known = forms.length === 0 ? null : new RegExp(forms.join('|'), 'g')
  return text => {
    const rest = known === null ? text : text.replace(known, GONE)
    return rest.replace(USERINFO, `$1${GONE}@`).replace(TOKENS, GONE)
  }
}

const kept = new Map<string, Redact>()
const MOST = 100

/** For a version of secrets: they never change, so neither does its redactor. */
export async function redactorOf(deps: Deps, deployment_id: string, secrets_id: string): Promise<Redact> {
  const known = kept.get(secrets_id)
  if (known !== undefined) return known
  const redact = openRedactor(Object.values(await secretsOf(deps, deployment_id, secrets_id)))
  if (kept.size >= MOST) kept.delete(kept.keys().next().value!)
  kept.set(secrets_id, redact)
  return redact
}
