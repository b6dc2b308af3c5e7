/** The door of this folder: an edge on a link, until the lifecycle stops it. `scripts/roles.ts` starts it. */
export { startEdge } from './edge.js'
