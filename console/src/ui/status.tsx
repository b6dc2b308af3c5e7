/** The status of a run, a thread or a deployment: a colour and its word. */
const TONES: { readonly [status: string]: 'good' | 'bad' | 'busy' | 'wait' | 'quiet' } = {
  success: 'good',
  idle: 'quiet',
  busy: 'busy',
  running: 'busy',
  pending: 'wait',
  interrupted: 'wait',
  enabled: 'good',
  paused: 'wait',
  error: 'bad',
  timeout: 'bad',
  expired: 'bad',
  delivered: 'good',
  scheduled: 'wait',
  sending: 'busy',
  'given up': 'bad',
  late: 'wait',
  skipped: 'bad',
}

export const Status = ({ of }: { of: string }) => <span className={`status ${TONES[of] ?? 'quiet'}`}>{of}</span>
