import { readStream } from '../../../helpers/sse.js'
import type { Row } from '../../harness/row.js'

export const row: Row = {
  number: 14,
  name: 'Ids of events within one millisecond',
  fault: 'A node writes events in a loop without a pause.',
  promised: 'Every event arrives once; ids increase strictly.',
  oneStore: 'events do not pass the store',
  async run(stage) {
    const roles = await stage.roles({ edges: 1, graphs: 1 })
    const events = stage.size(5_000, 50_000)
    const since = performance.now()
    const { frames, ended } = await readStream(`${roles.urls[0]}/runs/stream`, {
      method: 'POST',
      body: {
        assistant_id: 'witness',
        input: { file: stage.witness, key: 'loop', steps: 1, events, how: 'none' },
        stream_mode: 'custom',
      },
    })
    const seconds = (performance.now() - since) / 1_000
    const numbers = frames.slice(1).map(({ data }) => (JSON.parse(data) as { i: number }).i)
    const ids = new Set(frames.map(({ id }) => id))
    stage.expect(ended, 'the stream was cut')
    stage.expect(
      numbers.length === events && numbers.every((n, i) => n === i + 1),
      `${numbers.length} of ${events} events, or not in order`,
    )
    stage.expect(
      frames.every(({ id }, i) => i === 0 || id > frames[i - 1]!.id),
      'ids do not increase',
    )
    return { load: `${events} events in a loop`, measured: `${ids.size} distinct ids in ${seconds.toFixed(1)} s` }
  },
}
