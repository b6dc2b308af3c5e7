/** The program of a probe: loads the application named by WEFT_APP and writes the result to descriptor 3. */
import { Socket } from 'node:net'
import type { Hello } from '../../../schemas/host.js'
import { loadApplication } from '../../host/application.js'

export type ProbeResult = Hello

const path = process.env.WEFT_APP
delete process.env.WEFT_APP
const report = new Socket({ fd: 3 })
// The deploy worker has ended: the result is not needed.
for (const event of ['end', 'close', 'error']) report.on(event, () => process.exit(1))
report.resume()
const { hello } = await loadApplication(path!)
report.end(JSON.stringify(hello satisfies ProbeResult))
