/** The first page of a server: only its colours change. */
import { colours } from './colours.js'

colours(document.querySelector<HTMLButtonElement>('.theme')!)
