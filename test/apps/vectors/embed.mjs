/** A text as the numbers of its letters a, b and c; a text may ask for a failure. */
export const embed = async texts =>
  texts.map(text => {
    if (text.includes('throw')) throw new Error('the model is away')
    return ['a', 'b', 'c'].map(letter => text.split(letter).length - 1)
  })
