/** Starts an edge on a link; it runs until the lifecycle stops it. `cli/commands/roles.ts` calls it. */
export { type OpenEdge, openEdge } from './edge.js'
