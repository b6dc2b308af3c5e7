/** Query parameters as the SDKs write them (API: threads-and-runs 1). */

/** true, 1 and yes in any case; everything else is false. */
export const isTrue = (text: string | null): boolean => text !== null && /^(1|true|yes)$/i.test(text)
