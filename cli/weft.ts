#!/usr/bin/env node
/** The file behind the command `weft`. The command itself is a program (commands/weft.ts), bundled as all programs are. */
// First: an unsupported Node.js cannot load the rest.
import './check-node.js'

await import(new URL('../programs/weft.js', import.meta.url).href)
