/**
 * Sets the clock of a process off by WEFT_TEST_CLOCK_MS milliseconds: loaded with `--import` before its program, so that the
 * program has no code for it. Timers are not affected, as on a machine whose clock is wrong.
 */
const ahead = Number(process.env.WEFT_TEST_CLOCK_MS ?? 0)
const now = Date.now

globalThis.Date = new Proxy(Date, {
  construct: (target, args, made) => Reflect.construct(target, args.length > 0 ? args : [now() + ahead], made),
  get: (target, key) => (key === 'now' ? () => now() + ahead : Reflect.get(target, key)),
})
