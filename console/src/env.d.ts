/** Of package.json; the build sets it. */
declare const VERSION: string
