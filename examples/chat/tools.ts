/** Tools without a network: the same question always gets the same answer. */
const SKIES = ['clear', 'cloudy', 'rainy', 'windy', 'snowy']

export const tools: { [name: string]: (args: { [name: string]: string }) => string } = {
  weather({ city = '' }) {
    const sum = [...city.toLowerCase()].reduce((all, letter) => all + letter.codePointAt(0)!, 0)
    return `The weather in ${city} is ${SKIES[sum % SKIES.length]}, ${(sum % 35) - 5} °C.`
  },
  calculate({ expression = '' }) {
    try {
      return `${expression} = ${evaluate(expression)}`
    } catch {
      return `I cannot calculate ${expression}.`
    }
  },
}

/** Sums and products with brackets. */
function evaluate(expression: string): number {
  const parts = expression.match(/\d+(?:\.\d+)?|[-+*/()]/g) ?? []
  const product = (): number => {
    let left = factor()
    while (parts[0] === '*' || parts[0] === '/') left = parts.shift() === '*' ? left * factor() : left / factor()
    return left
  }
  const sum = (): number => {
    let left = product()
    while (parts[0] === '+' || parts[0] === '-') left = parts.shift() === '+' ? left + product() : left - product()
    return left
  }
  const factor = (): number => {
    const part = parts.shift()
    if (part === '-') return -factor()
    if (part !== '(') return Number(part)
    const inner = sum()
    if (parts.shift() !== ')') throw new SyntaxError('a bracket is missing')
    return inner
  }
  const result = sum()
  if (parts.length > 0 || Number.isNaN(result)) throw new SyntaxError('not a sum')
  return result
}
