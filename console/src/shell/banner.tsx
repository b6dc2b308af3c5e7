/** Says that the connection is lost, and for how long it was. */
import { connection } from '../api/connection'
import { useStore } from '../api/store'
import { Icon } from '../ui/icon'
import { durationText } from '../ui/time'
import { useNow } from '../ui/use-now'

export function Banner() {
  const { lostAt, lostFor } = useStore(connection)
  const now = useNow(lostAt === null ? null : 1_000)
  return (
    <div role="status" aria-live="polite">
      {lostAt !== null && (
        <p className="banner banner-lost">
          <Icon name="plug" />
          Connection lost{now - lostAt < 1_000 ? '' : ` ${durationText(now - lostAt)} ago`}. What you see may be old;
          trying again every second.
        </p>
      )}
      {lostAt === null && lostFor !== null && (
        <p className="banner banner-back">
          <Icon name="check" />
          Connected again after {durationText(lostFor)}. The page was loaded anew.
        </p>
      )}
    </div>
  )
}
