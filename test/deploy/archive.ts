/** Tar archives with any content, also such that no program would write. */
export interface Entry {
  path: string
  /** The path of the pax header before it; overrides `path`. */
  name?: string
  text?: string
  /** The type in the header: 0 file, 1 link, 2 symbolic link, 3 device, 5 folder, 6 fifo. */
  type?: string
  link?: string
  mode?: number
}

export const tarOf = (entries: readonly Entry[]): Buffer =>
  Buffer.concat([...entries.flatMap(bytesOf), Buffer.alloc(1_024)])

function bytesOf({ path, name, text = '', type = '0', link = '', mode = 0o644 }: Entry): Buffer[] {
  const body = Buffer.from(text)
  const pax = name === undefined ? [] : blocks('PaxHeader', Buffer.from(paxLine('path', name)), 'x', '', 0o644)
  return [...pax, ...blocks(path, body, type, link, mode)]
}

function paxLine(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`
  let length = Buffer.byteLength(rest)
  while (length !== Buffer.byteLength(`${length}${rest}`)) length = Buffer.byteLength(`${length}${rest}`)
  return `${length}${rest}`
}

function blocks(path: string, body: Buffer, type: string, link: string, mode: number): Buffer[] {
  const header = Buffer.alloc(512)
  const octal = (value: number, at: number, size: number) =>
    header.write(`${value.toString(8).padStart(size - 1, '0')}\0`, at)
  header.write(path, 0, 100)
  octal(mode, 100, 8)
  octal(0, 108, 8)
  octal(0, 116, 8)
  octal(body.length, 124, 12)
  octal(0, 136, 12)
  header.write('        ', 148)
  header.write(type, 156)
  header.write(link, 157, 100)
  header.write('ustar\x0000', 257)
  octal(
    header.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  )
  return [header, body, Buffer.alloc((512 - (body.length % 512)) % 512)]
}
