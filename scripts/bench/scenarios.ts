/** The table of scenarios, in the order in which they run. */
import type { Scenario } from './scenario.js'
import { ITEMS } from './scenarios-items.js'
import { JOINS } from './scenarios-joins.js'
import { RESOURCES } from './scenarios-resources.js'
import { RUNS } from './scenarios-runs.js'
import { START } from './scenarios-start.js'
import { STREAMS_OF } from './scenarios-streams.js'

export const SCENARIOS: readonly Scenario[] = [...START, ...RESOURCES, ...ITEMS, ...RUNS, ...STREAMS_OF, ...JOINS]
