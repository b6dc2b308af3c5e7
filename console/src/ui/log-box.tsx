import { type ReactNode, useLayoutEffect, useRef } from 'react'
import '../styles/log.css'

/** As near to the end as this, in pixels, a log follows its last line. */
const NEAR = 40

interface LogBoxProps {
  label: string
  /** Another value when there are other lines. */
  lines: unknown
  children: ReactNode
}

/** Lines that scroll with the newest one, unless a person has scrolled away from it. */
export function LogBox({ label, lines, children }: LogBoxProps) {
  const box = useRef<HTMLDivElement>(null)
  const follows = useRef(true)
  // The lines are what makes it longer.
  useLayoutEffect(() => {
    if (follows.current) box.current?.scrollTo(0, box.current.scrollHeight)
  }, [lines])
  return (
    <div
      ref={box}
      className="log"
      role="log"
      aria-label={label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also by keys
      tabIndex={0}
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        follows.current = scrollHeight - scrollTop - clientHeight < NEAR
      }}
    >
      {children}
    </div>
  )
}
