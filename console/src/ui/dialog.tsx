import { type ReactNode, useEffect, useRef } from 'react'

interface DialogProps {
  label: string
  /** Called by Escape, too, unless `stays`. */
  close: () => void
  /** Only a button closes the dialog, because its content cannot be shown again. */
  stays?: boolean
  children: ReactNode
}

/** A dialog over the page, which keeps the focus. */
export function Dialog({ label, close, stays = false, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => dialog.current?.showModal(), [])
  useEffect(() => {
    if (!stays) return
    const onKey = (event: KeyboardEvent) => void (event.key === 'Escape' && event.preventDefault())
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [stays])
  return (
    <dialog
      ref={dialog}
      className="dialog"
      aria-label={label}
      // A phone closes it by a gesture, too.
      onClose={() => (stays ? dialog.current?.showModal() : close())}
    >
      {children}
    </dialog>
  )
}
