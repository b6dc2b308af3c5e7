/** Quantities of Kubernetes, as far as containers of an engine have them. */
const FACTORS: { [suffix: string]: number } = {
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
}

/** `0.5`, `500m` → 500; null for another form. */
export function millicoresOf(value: unknown): number | null {
  const match = /^(\d+(?:\.\d+)?)(m?)$/.exec(String(value))
  return match === null ? null : Math.round(Number(match[1]) * (match[2] === 'm' ? 1 : 1_000))
}

/** `256Mi` → 256; null for another form. */
export function megabytesOf(value: unknown): number | null {
  const match = /^(\d+(?:\.\d+)?)([kMGT]|[KMGT]i)?$/.exec(String(value))
  return match === null ? null : Math.max(1, Math.floor((Number(match[1]) * FACTORS[match[2] ?? '']!) / 2 ** 20))
}
