/** An answer that is not what it must be. It fails the scenario: nothing wrong is ever counted. */
export class Wrong extends Error {}

/** Throws a Wrong unless `right`. */
export function check(right: boolean, sentence: string | (() => string)): asserts right {
  if (!right) throw new Wrong(typeof sentence === 'string' ? sentence : sentence())
}

/** What a person sees of a text that should have been something else. */
export const shown = (text: unknown): string => {
  const whole = typeof text === 'string' ? text : (JSON.stringify(text) ?? 'nothing')
  return whole.length <= 200 ? whole : `${whole.slice(0, 200)}…`
}
