/** Answers of commands: a table for people, JSON for programs. */

export const printJson = (value: unknown): void => void process.stdout.write(`${JSON.stringify(value, null, 2)}\n`)

/** Columns as wide as their widest cell; the last column is not padded. */
export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const all = [head, ...rows]
  const widths = head.map((_, column) => Math.max(...all.map(row => row[column]!.length)))
  for (const [i, row] of all.entries()) {
    const line = row.map((cell, column) => cell.padEnd(widths[column]!)).join('  ')
    process.stdout.write(`${paint(line.trimEnd(), i === 0 ? 'dim' : null)}\n`)
  }
}

const CODES = { dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const
export type Colour = keyof typeof CODES

/** The text in a colour, where `stream` is a terminal and NO_COLOR is not set (https://no-color.org). */
export function paint(text: string, colour: Colour | null, stream: NodeJS.WriteStream = process.stdout): string {
  if (colour === null || !stream.isTTY || process.env.NO_COLOR) return text
  return `\u001b[${CODES[colour]}m${text}\u001b[0m`
}

/** Lines of at most `width` columns, broken between words. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const last = lines.at(-1)
    if (last !== undefined && last.length + word.length < width) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(word)
  }
  return lines
}
