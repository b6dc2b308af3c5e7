/** Redacts secrets in text for clients: logs of builds and deployments, messages (API: control-plane 13). */
import type { Deps } from '../context.js'
import { secretsOf } from './text.js'

/** Shorter values would match parts of ordinary words. */
const SHORTEST = 6
const REPLACEMENT = '[redacted]'
/** `scheme://user:password@` and `scheme://token@`. */
const USERINFO = /\b([a-z][a-z0-9+.-]*:\/\/)[^\s/@"'<>]+@/gi
/** Tokens with a known form: GitHub, GitLab, npm, Slack, AWS, OpenAI and similar, LangSmith, JWTs, our own key. */
const TOKENS =
  /\b(gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|npm_[A-Za-z0-9]{30,}|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|sk-[\w-]{20,}|lsv2_\w{20,}|weft_[\w-]{40,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,})/g

export type Redact = (text: string) => string

/** Also finds the values as JSON, as part of a URL, in base64, and each line of a value. */
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
  // The longest first, because a value may contain another one.
  const forms = [...wanted].sort((a, b) => b.length - a.length).map(form => form.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
  const known = forms.length === 0 ? null : new RegExp(forms.join('|'), 'g')
  return text => {
    const rest = known === null ? text : text.replace(known, REPLACEMENT)
    return rest.replace(USERINFO, `$1${REPLACEMENT}@`).replace(TOKENS, REPLACEMENT)
  }
}

export interface Redactors {
  /** The redactor of a version of secrets. A version never changes, so its redactor is kept. */
  of(deployment_id: string, secrets_id: string): Promise<Redact>
}

const MAX_REDACTORS = 100

export function openRedactors(deps: Deps): Redactors {
  const redactors = new Map<string, Redact>()
  return {
    async of(deployment_id, secrets_id) {
      const found = redactors.get(secrets_id)
      if (found !== undefined) return found
      const redact = openRedactor(Object.values(await secretsOf(deps, deployment_id, secrets_id)))
      if (redactors.size >= MAX_REDACTORS) redactors.delete(redactors.keys().next().value!)
      redactors.set(secrets_id, redact)
      return redact
    },
  }
}
