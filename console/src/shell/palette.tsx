/** Ctrl K: goes to a page, an assistant or a thread, by a few letters or by an id. */
import { useEffect, useRef, useState } from 'react'
import { useLocation } from 'wouter'
import { client } from '../api/client'
import { createStore, useStore } from '../api/store'
import { PAGES } from '../pages'
import { Icon, type IconName } from '../ui/icon'
import { nextTheme } from './theme'

interface Choice {
  id: string
  title: string
  note: string
  icon: IconName
  run(): void
}

const palette = createStore({ open: false })
export const openPalette = (): void => palette.change({ open: true })
const close = (): void => palette.change({ open: false })

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

export function Palette() {
  const { open } = useStore(palette)
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey)) return
      event.preventDefault()
      palette.change({ open: !palette.get().open })
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
  return open ? <OpenPalette /> : null
}

function OpenPalette() {
  const dialog = useRef<HTMLDialogElement>(null)
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const choices = useChoices(text.trim())
  const chosen = Math.min(at, choices.length - 1)
  useEffect(() => dialog.current?.showModal(), [])
  const pick = (choice: Choice | undefined) => {
    close()
    choice?.run()
  }
  return (
    <dialog ref={dialog} className="palette" aria-label="Go to" onClose={close}>
      <div className="palette-input">
        <Icon name="search" />
        <input
          role="combobox"
          aria-label="Page, assistant or id"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={choices[chosen] === undefined ? undefined : `choice-${chosen}`}
          placeholder="Page, assistant, or the id of a thread"
          value={text}
          onChange={event => {
            setText(event.target.value)
            setAt(0)
          }}
          onKeyDown={event => {
            if (event.key === 'ArrowDown') setAt(Math.min(chosen + 1, choices.length - 1))
            else if (event.key === 'ArrowUp') setAt(Math.max(chosen - 1, 0))
            else if (event.key === 'Enter') pick(choices[chosen])
            else return
            event.preventDefault()
          }}
        />
        <kbd>Esc</kbd>
      </div>
      <div id="palette-list" role="listbox" aria-label="Choices" className="palette-list">
        {choices.map((choice, i) => (
          <div
            key={choice.id}
            id={`choice-${i}`}
            role="option"
            tabIndex={-1}
            aria-selected={i === chosen}
            onMouseMove={() => setAt(i)}
            onClick={() => pick(choice)}
            onKeyDown={() => {}}
          >
            <Icon name={choice.icon} />
            <span>{choice.title}</span>
            <small>{choice.note}</small>
          </div>
        ))}
      </div>
      {choices.length === 0 && <p className="palette-none">Nothing matches “{text}”.</p>}
    </dialog>
  )
}

function useChoices(text: string): Choice[] {
  const [, go] = useLocation()
  const [assistants, setAssistants] = useState<{ assistant_id: string; name: string }[]>([])
  useEffect(() => {
    // The pages can be reached without them.
    client.assistants.search({ limit: 50 }).then(setAssistants, () => {})
  }, [])
  const all: Choice[] = [
    ...PAGES.map(({ path, title, icon, note }) => ({ id: path, title, note, icon, run: () => go(path) })),
    ...assistants.map(({ assistant_id, name }) => ({
      id: assistant_id,
      title: `Chat with ${name}`,
      note: 'assistant',
      icon: 'chat' as const,
      run: () => {
        sessionStorage.setItem('weft.assistant', assistant_id)
        go('/chat')
      },
    })),
    { id: 'theme', title: 'Change the theme', note: 'dark, light, system', icon: 'contrast', run: nextTheme },
  ]
  if (UUID.test(text))
    return [
      { id: 'thread', title: 'Inspect the thread', note: text, icon: 'thread', run: () => go(`/threads/${text}`) },
      { id: 'chat', title: 'Chat in the thread', note: text, icon: 'chat', run: () => go(`/chat/${text}`) },
    ]
  const words = text.toLowerCase().split(/\s+/)
  return all.filter(({ title, note }) => words.every(word => `${title} ${note}`.toLowerCase().includes(word)))
}
