/**
 * The texts of an item that are embedded, by paths into its value (docs/spec/items.md#semantic-search): `$`, the whole
 * value; `a.b`, `a[0]`, `a[-1]`, `a[*].b`, `*`, and `{a,b}`, several members. What a path does not find is left out.
 */
import { fail } from '../../../schemas/errors.js'
import { jsonText } from '../../../schemas/exact.js'
import { isObject, type JsonObject } from '../../../schemas/json.js'

/** The whole value. */
export const WHOLE = '$'
const MAX_PATHS = 100
const MAX_PATH = 1_000
/** Characters of all texts of an item. */
const MAX_TEXT = 4 * 1024 * 1024
/** Values looked at for an item: `{a,a}.{a,a}…` doubles them with each step. */
const MAX_VISITS = 100_000

type Step = { name: string } | { index: number } | { each: true } | { any: Step[][] }

/** Distinct texts, in the order of the paths. Throws `invalid` for a path that cannot be read, and for too much text. */
export function textsOf(value: JsonObject, paths: readonly string[]): string[] {
  if (paths.length > MAX_PATHS) throw fail('invalid', `index: expected at most ${MAX_PATHS} paths`)
  const texts = new Set<string>()
  const room = { text: MAX_TEXT, visits: MAX_VISITS }
  for (const path of new Set(paths))
    for (const found of path === WHOLE ? [value] : find(value, stepsOf(path), room)) {
      const text = textOf(found)
      if (text === null || texts.has(text)) continue
      if ((room.text -= text.length) < 0)
        throw fail(
          'invalid',
          `index: the texts of an item may have ${MAX_TEXT} characters in all; name shorter members`,
        )
      texts.add(text)
    }
  return [...texts]
}

function textOf(value: unknown): string | null {
  if (value === null || value === undefined) return null
  return typeof value === 'object' ? jsonText(value) : String(value)
}

function* find(value: unknown, steps: readonly Step[], room: { visits: number }): Generator<unknown> {
  if (room.visits-- <= 0) throw fail('invalid', `index: the paths of an item may reach ${MAX_VISITS} values`)
  const [step, ...rest] = steps
  if (step === undefined) return yield value
  if ('any' in step) for (const way of step.any) yield* find(value, [...way, ...rest], room)
  else for (const member of membersOf(value, step)) yield* find(member, rest, room)
}

function membersOf(value: unknown, step: Exclude<Step, { any: unknown }>): unknown[] {
  if ('each' in step) return Array.isArray(value) ? value : isObject(value) ? Object.values(value) : []
  if ('index' in step) return Array.isArray(value) ? [value.at(step.index)] : []
  return isObject(value) && Object.hasOwn(value, step.name) ? [value[step.name]] : []
}

/** `.name`, `[index]`, `[*]` or `{path,path}`; the first one has no dot. */
const PART = /\.?(?:([^.[\]{}]+)|\[(\*|-?\d+)\]|\{([^{}]+)\})/y

function stepsOf(path: string): Step[] {
  const steps: Step[] = []
  PART.lastIndex = 0
  if (path.length > MAX_PATH) throw unreadable(path)
  for (let at = 0; at < path.length; ) {
    PART.lastIndex = at
    const found = PART.exec(path)
    if (found === null) throw unreadable(path)
    at = PART.lastIndex
    const [, name, index, several] = found
    if (several !== undefined) steps.push({ any: several.split(',').map(one => stepsOf(one.trim())) })
    else if (name === '*' || index === '*') steps.push({ each: true })
    else steps.push(index === undefined ? { name: name! } : { index: Number(index) })
  }
  if (steps.length === 0) throw unreadable(path)
  return steps
}

const unreadable = (path: string) =>
  fail('invalid', `index: expected paths as "$", "a.b", "a[0].b", "a[*].b", "*" or "{a,b}", got "${path.slice(0, 80)}"`)
