/** Inserts threads one after the other and prints each id once its insert has resolved, until it is killed. */
import { openSqlite } from '../../store/sqlite.js'
import { thread } from './conformance-rows.js'

const store = await openSqlite({ folder: process.argv[2]! })
await Promise.all(
  Array.from({ length: 8 }, async () => {
    for (;;) {
      const row = thread()
      await store.apply([{ step: 'threads.insert', row }])
      process.stdout.write(`${row.thread_id}\n`)
    }
  }),
)
