import { useState } from 'react'
import { Button } from './button'

const SHOWN_MS = 1_500

export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [done, setDone] = useState(false)
  // Browsers have no clipboard for pages over plain HTTP from another machine.
  if (navigator.clipboard === undefined) return null
  return (
    <Button
      kind="ghost"
      icon={done ? 'check' : 'copy'}
      label={done ? 'Copied' : label}
      onClick={async () => {
        await navigator.clipboard.writeText(text)
        setDone(true)
        setTimeout(() => setDone(false), SHOWN_MS)
      }}
    />
  )
}
