import { useState } from 'react'
import { Button } from '../../ui/button'

interface ComposerProps {
  isLoading: boolean
  onSend: (text: string) => void
  onStop: () => void
}

/** Where a person writes. Enter sends, Shift Enter begins a line. */
export function Composer({ isLoading, onSend, onStop }: ComposerProps) {
  const [text, setText] = useState('')
  const send = () => {
    if (isLoading || text.trim() === '') return
    onSend(text)
    setText('')
  }
  return (
    <form
      className="composer"
      onSubmit={event => {
        event.preventDefault()
        send()
      }}
    >
      <textarea
        aria-label="Message"
        placeholder="Write a message"
        rows={Math.min(8, text.split('\n').length)}
        value={text}
        onChange={event => setText(event.target.value)}
        onKeyDown={event => {
          if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return
          event.preventDefault()
          send()
        }}
      />
      {isLoading ? (
        <Button icon="stop" label="Stop" onClick={onStop} />
      ) : (
        <Button kind="primary" type="submit" icon="send" label="Send" disabled={text.trim() === ''} />
      )}
    </form>
  )
}
