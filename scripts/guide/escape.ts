const ESCAPES: { readonly [character: string]: string } = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

/** Text for HTML, also inside of attributes in double quotes. */
export const escapeHtml = (text: string): string => text.replaceAll(/[&<>"]/g, character => ESCAPES[character]!)
