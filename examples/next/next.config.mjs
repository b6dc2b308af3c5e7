/** The handler finds the server beside its own file, so it is not bundled. */
export default { serverExternalPackages: ['weft-server'] }
