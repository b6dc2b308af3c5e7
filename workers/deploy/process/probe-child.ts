/** The program of a probe: loads the application named by WEFT_APP and reports the result to its parent. */
import type { Hello } from '../../../schemas/host.js'
import { loadApplication } from '../../host/application.js'

export type ProbeResult = Hello

const path = process.env.WEFT_APP
delete process.env.WEFT_APP
// The deploy worker has ended: the result is not needed.
process.once('disconnect', () => process.exit(1))
const send = process.send!.bind(process)
// The application has no parent to talk to.
delete process.send
const { hello } = await loadApplication(path!)
send(hello satisfies ProbeResult)
