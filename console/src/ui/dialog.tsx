import { type ReactNode, useEffect, useRef } from 'react'

interface DialogProps {
  label: string
  /** Called by Escape, too, unless `stays`. */
  close: () => void
  /** What it shows is lost when it closes: only a button closes it. */
  stays?: boolean
  children: ReactNode
}

/** A dialog over the page, which keeps the focus. */
export function Dialog({ label, close, stays = false, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => dialog.current?.showModal(), [])
  return (
    <dialog
      ref={dialog}
      className="dialog"
      aria-label={label}
      onCancel={event => void (stays && event.preventDefault())}
      // A second Escape closes a dialog whatever `cancel` was answered.
      onClose={() => (stays ? dialog.current?.showModal() : close())}
    >
      {children}
    </dialog>
  )
}
