/** The text `v<n>` as one of many directions: no two of them are close. */
export const embed = texts =>
  texts.map(text => {
    const n = Number(text.slice(1))
    return Array.from({ length: 256 }, (_, i) => Math.sin((n + 1) * (i + 1) * 0.7391 + i))
  })
