const TAIL = 8

/** The end of an id: the heads of ids that were made within hours are alike. */
export const tailOf = (id: string): string => (id.length > TAIL + 1 ? `…${id.slice(-TAIL)}` : id)

/** A short id. Its title is the whole one, and to copy it copies the whole one. */
export const Id = ({ of }: { of: string }) => (
  <span
    className="mono id"
    title={of}
    onCopy={event => {
      event.clipboardData.setData('text/plain', of)
      event.preventDefault()
    }}
  >
    {tailOf(of)}
  </span>
)
