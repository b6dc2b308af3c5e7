/** A cache of what hosts answered about graphs, valid for one generation of an application. */

export interface Descriptions {
  /**
   * The cached answer, else that of `ask`, which concurrent callers share. A failure is not cached. `generation`: of the
   * application; answers of another one are dropped.
   */
  get(app: string, generation: string, key: string, ask: () => Promise<Uint8Array>): Promise<Uint8Array>
}

interface Answers {
  generation: string
  byKey: Map<string, Promise<Uint8Array>>
  bytes: number
}

const MAX_BYTES = 32 * 1024 * 1024

export function openDescriptions(): Descriptions {
  const cache = new Map<string, Answers>()
  return {
    get(app, generation, key, ask) {
      let answers = cache.get(app)
      if (answers === undefined || answers.generation !== generation || answers.bytes > MAX_BYTES)
        cache.set(app, (answers = { generation, byKey: new Map(), bytes: 0 }))
      const { byKey } = answers
      const cached = byKey.get(key)
      if (cached !== undefined) return cached
      const answer = ask()
      byKey.set(key, answer)
      answer.then(
        ({ length }) => (answers.bytes += length + key.length * 2),
        () => byKey.delete(key),
      )
      return answer
    },
  }
}
