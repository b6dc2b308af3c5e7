/** The program of a probe: loads the application named by WEFT_APP and tells its parent what came of it. */

import type { Hello } from '../../../schemas/host.js'
import { loadApplication } from '../../host/application.js'

export type Probed = Hello

const path = process.env.WEFT_APP
delete process.env.WEFT_APP
// The deploy worker is gone: nobody waits for this.
process.once('disconnect', () => process.exit(1))
const send = process.send!.bind(process)
const { hello } = await loadApplication(path!)
send(hello satisfies Probed)
