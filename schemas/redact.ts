/**
 * Redacts secrets in text for people: logs of builds and deployments, messages (docs/spec/control-plane.md#logs).
 * Applications choose the text, so the time is linear in its length: 25 to 100 ns per character, for any number of secrets.
 * One regular expression of all values took 20 times as long with 2,000 of them, and V8 refuses it for a value of 32 KiB.
 */

/** Shorter values would match parts of ordinary words. */
const SHORTEST = 6
/** Length from which the first characters usually identify a value. */
const LONG = 16
const REPLACEMENT = '[redacted]'
/** `scheme://user:password@` and `scheme://token@`. */
const USERINFO = /:\/\/[^\s/"'<>]+@/g
/** Tokens with a known form: GitHub, GitLab, npm, Slack, AWS, OpenAI and similar, LangSmith, our own key. */
const TOKENS =
  /\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|npm_[A-Za-z0-9]{30,}|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|sk-[\w-]{20,}|lsv2_\w{20,}|weft_[\w-]{40,})/g
/** Three words between dots may be a JWT. They begin where a word begins, so that each word is read twice at most. */
const DOTTED = /(?<![\w-])[\w-]{13,}\.[\w-]{10,}\.[\w-]{5,}/g
const JWT = /(?<![A-Za-z0-9_])eyJ[\w-]{10,}\./

export interface Redactor {
  redact(text: string): string
  /** Length of the longest form of a value: a text that is cut closer to its end may show the beginning of one. */
  longest: number
}

/**
 * Finds each value, and each line of a value, as it is, as JSON and as part of a URL; and the whole value in hex and in
 * base64 at any position of the encoded text. Other encodings are not found.
 */
export function openRedactor(values: readonly string[]): Redactor {
  const forms = new Set<string>()
  for (const value of values) {
    if (value.length < SHORTEST) continue
    for (const text of [value, ...value.split(/\r?\n/).map(line => line.trim())])
      if (text.length >= SHORTEST) for (const form of plainForms(text)) forms.add(form)
    for (const form of encodedForms(Buffer.from(value))) if (form.length >= SHORTEST) forms.add(form)
  }
  const all = [...forms]
  // Two lengths, because many keys begin with the same few characters.
  const findLong = openFinder(
    all.filter(form => form.length >= LONG),
    LONG,
  )
  const findShort = openFinder(
    all.filter(form => form.length < LONG),
    SHORTEST,
  )
  return {
    longest: all.reduce((longest, form) => Math.max(longest, form.length), 0),
    redact: text =>
      findShort(findLong(text))
        .replace(USERINFO, `://${REPLACEMENT}@`)
        .replace(TOKENS, REPLACEMENT)
        .replace(DOTTED, dotted => {
          const start = JWT.exec(dotted)?.index
          return start === undefined ? dotted : dotted.slice(0, start) + REPLACEMENT
        }),
  }
}

function plainForms(text: string): string[] {
  // A lone surrogate cannot be part of a URL.
  const url = text.isWellFormed() ? encodeURIComponent(text) : text
  const lower = url.replace(/%[0-9A-F]{2}/g, code => code.toLowerCase())
  return [text, JSON.stringify(text).slice(1, -1), url, lower, url.replaceAll('%20', '+')]
}

function encodedForms(bytes: Buffer): string[] {
  const hex = bytes.toString('hex')
  const whole = bytes.toString('base64').replace(/=+$/, '')
  const base64 = [whole, ...[0, 1, 2].map(offset => base64At(bytes, offset))]
  return [hex, hex.toUpperCase(), ...base64, ...base64.map(text => text.replaceAll('+', '-').replaceAll('/', '_'))]
}

/** The characters that only these bytes decide when `offset` other bytes are before them in their group of three. */
function base64At(bytes: Buffer, offset: number): string {
  const text = Buffer.concat([Buffer.alloc(offset), bytes])
    .toString('base64')
    .replace(/=+$/, '')
  const first = offset === 0 ? 0 : offset + 1
  return text.slice(first, (bytes.length + offset) % 3 === 0 ? undefined : -1)
}

const BASE = 0x01000193

/**
 * Replaces every occurrence of the forms, the longest first. A rolling hash over `window` characters selects the
 * positions that are compared with the forms. Every form has at least `window` characters.
 */
function openFinder(forms: readonly string[], window: number): (text: string) => string {
  if (forms.length === 0) return text => text
  /** BASE ** (window - 1), which takes the first character out of the hash. */
  const power = Array.from({ length: window - 1 }).reduce<number>(power => Math.imul(power, BASE), 1)
  const byHash = new Map<number, string[]>()
  for (const form of [...forms].sort((a, b) => b.length - a.length)) {
    const hash = hashOf(form, window)
    byHash.set(hash, [...(byHash.get(hash) ?? []), form])
  }
  const filter = new Uint8Array(1 << 16)
  for (const hash of byHash.keys()) filter[hash >>> 16] = 1
  return text => {
    if (text.length < window) return text
    let out = ''
    let copied = 0
    let hash = hashOf(text, window)
    for (let at = 0; ; at++) {
      if (filter[hash >>> 16] === 1 && at >= copied) {
        const form = byHash.get(hash)?.find(one => text.startsWith(one, at))
        if (form !== undefined) {
          out += text.slice(copied, at) + REPLACEMENT
          copied = at + form.length
        }
      }
      if (at + window >= text.length) break
      const without = (hash - Math.imul(text.charCodeAt(at), power)) | 0
      hash = (Math.imul(without, BASE) + text.charCodeAt(at + window)) | 0
    }
    return copied === 0 ? text : out + text.slice(copied)
  }
}

/** Hash of the first characters. */
function hashOf(text: string, window: number): number {
  let hash = 0
  for (let i = 0; i < window; i++) hash = (Math.imul(hash, BASE) + text.charCodeAt(i)) | 0
  return hash
}
