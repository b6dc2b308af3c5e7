/**
 * `interrupt` of the library throws a TypeError for a value with a BigInt: the error that carries the interrupt makes its
 * message with JSON.stringify. Inside that constructor a BigInt becomes its decimal text, as in every answer to clients.
 * Everywhere else the method returns the BigInt itself, which JSON.stringify treats as if there were no method: replacers
 * see it, and without one it throws.
 */
const CONSTRUCTOR = /\bnew GraphInterrupt\b/

if (!('toJSON' in BigInt.prototype))
  Object.defineProperty(BigInt.prototype, 'toJSON', {
    value(this: bigint) {
      return CONSTRUCTOR.test(new Error().stack ?? '') ? String(this) : this.valueOf()
    },
    writable: true,
    configurable: true,
  })
