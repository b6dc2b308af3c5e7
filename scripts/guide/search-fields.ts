/** The fields of the search index: the build and the page name the same. */
export const FIELDS = { fields: ['title', 'page', 'text'], storeFields: ['page', 'title', 'text'] }
