/** A wrong answer. It fails the scenario, so no wrong answer is counted. */
export class Wrong extends Error {}

/** Throws a Wrong unless `right`. */
export function check(right: boolean, sentence: string | (() => string)): asserts right {
  if (!right) throw new Wrong(typeof sentence === 'string' ? sentence : sentence())
}

/** An unexpected text, shortened for a message. */
export const shown = (text: unknown): string => {
  const whole = typeof text === 'string' ? text : (JSON.stringify(text) ?? 'nothing')
  return whole.length <= 200 ? whole : `${whole.slice(0, 200)}…`
}
