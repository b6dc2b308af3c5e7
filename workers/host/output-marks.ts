/** Marks what a run writes to stdout and stderr, so that the supervisor knows whose line it is (child/output-marks.ts). */
import { markOf } from '../pipe.js'

const NO_SLOT = markOf(0)

type Output = Pick<NodeJS.WriteStream, 'write'>
type Write = (chunk: unknown, ...rest: unknown[]) => boolean

/** `slotOf`: the slot whose code is running; 0: none. */
export function markOutput(slotOf: () => number, outputs: readonly Output[] = [process.stdout, process.stderr]): void {
  for (const output of outputs) {
    const write = output.write.bind(output) as Write
    const marked: Write = (chunk, ...rest) => {
      const slot = slotOf()
      if (slot === 0) return write(chunk, ...rest)
      if (chunk instanceof Uint8Array)
        return write(Buffer.concat([Buffer.from(markOf(slot)), chunk, Buffer.from(NO_SLOT)]), ...rest)
      const isText = typeof chunk === 'string' && (typeof rest[0] !== 'string' || /^utf-?8$/i.test(rest[0]))
      return write(isText ? `${markOf(slot)}${chunk}${NO_SLOT}` : chunk, ...rest)
    }
    output.write = marked as Output['write']
  }
}
