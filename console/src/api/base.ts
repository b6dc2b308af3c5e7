/** The address of the API: the page is `console` below it. */
export const base = new URL('.', location.origin + location.pathname).href.replace(/\/$/, '')
