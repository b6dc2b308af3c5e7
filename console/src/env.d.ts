/** The version of package.json; the build sets it. */
declare const VERSION: string
