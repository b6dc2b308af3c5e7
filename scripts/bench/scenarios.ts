/** The table of scenarios, in the order in which they run. */

import { GROWTH } from './scale/growth.js'
import { MANY } from './scale/many.js'
import { TIME } from './scale/over-time.js'
import { STORED } from './scale/stored.js'
import type { Scenario } from './scenario.js'
import { ITEMS } from './scenarios-items.js'
import { JOINS } from './scenarios-joins.js'
import { RESOURCES } from './scenarios-resources.js'
import { RUNS } from './scenarios-runs.js'
import { START } from './scenarios-start.js'
import { STREAMS_OF } from './scenarios-streams.js'

export const SCENARIOS: readonly Scenario[] = [
  ...[...START, ...RESOURCES, ...ITEMS, ...RUNS, ...STREAMS_OF, ...MANY, ...JOINS],
  ...[...STORED, ...GROWTH, ...TIME],
]
