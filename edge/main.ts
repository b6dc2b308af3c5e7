/** Starts an edge on a link; it runs until the lifecycle stops it. `scripts/roles.ts` calls it. */
export { openEdge } from './edge.js'
