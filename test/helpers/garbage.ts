/** Garbage collection of this process on demand: what it holds, without garbage that V8 has not collected yet. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
export const collectGarbage = runInNewContext('gc') as () => void
