/** Counts of letters as a vector; a text may ask for a failure. */
export async function embed(texts: string[]): Promise<number[][]> {
  return texts.map(text => {
    if (text === 'throw') throw new Error('the model is away')
    if (text === 'short') return [1]
    if (text === 'infinite') return [1, 1, Number.POSITIVE_INFINITY]
    return ['a', 'b', 'c'].map(letter => text.split(letter).length - 1)
  })
}
