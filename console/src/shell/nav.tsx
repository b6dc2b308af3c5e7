/** The list of pages: a column, and a drawer on a phone. */
import { useEffect, useState } from 'react'
import { Link } from 'wouter'
import { connection } from '../api/connection'
import { session, signOut } from '../api/session'
import { useStore } from '../api/store'
import { countWaiting, waiting } from '../api/waiting'
import { GROUPS, PAGES, type PageRow } from '../pages'
import { Icon, Mark } from '../ui/icon'
import { openPalette } from './palette'
import { nextTheme, theme } from './theme'

const THEME_TEXT = { system: 'Theme: system', light: 'Theme: light', dark: 'Theme: dark' }
const THEME_ICON = { system: 'contrast', light: 'sun', dark: 'moon' } as const

const COUNT_MS = 10_000

/** How many threads wait for a person; null: none, or not known. */
function useWaiting(): number | null {
  const { credentials, refused } = useStore(session)
  const { epoch } = useStore(connection)
  const { count } = useStore(waiting)
  // Other credentials may read other threads.
  useEffect(() => {
    if (refused !== null) return waiting.change({ count: null })
    const look = () => void (document.visibilityState === 'visible' && countWaiting())
    look()
    const timer = setInterval(look, COUNT_MS)
    return () => clearInterval(timer)
  }, [credentials, refused, epoch])
  return count === 0 ? null : count
}

export function Nav({ current }: { current: PageRow | undefined }) {
  const [open, setOpen] = useState(false)
  const { value } = useStore(theme)
  const { credentials } = useStore(session)
  const waits = useWaiting()
  return (
    <header className={`nav ${open ? 'nav-open' : ''}`}>
      <div className="nav-top">
        <Link href="/" className="brand" aria-label="Weft, first page">
          <Mark />
          <span>Weft</span>
        </Link>
        <span className="nav-title">{current?.title}</span>
        <button type="button" className="ghost nav-toggle" aria-expanded={open} onClick={() => setOpen(!open)}>
          <Icon name={open ? 'close' : 'menu'} />
          <span className="hidden">Pages</span>
        </button>
      </div>
      <div className="nav-body">
        <button type="button" className="search-button" onClick={openPalette}>
          <Icon name="search" />
          <span>Go to…</span>
          <kbd>{/Mac/.test(navigator.platform) ? '⌘' : 'Ctrl'} K</kbd>
        </button>
        <nav aria-label="Pages">
          {GROUPS.map(group => {
            const rows = PAGES.filter(page => page.group === group)
            if (rows.length === 0) return null
            return (
              <div key={group}>
                <h2>{group}</h2>
                <ul>
                  {rows.map(row => (
                    <li key={row.path}>
                      <Link
                        href={row.path}
                        onClick={() => setOpen(false)}
                        aria-current={row === current ? 'page' : undefined}
                      >
                        <Icon name={row.icon} />
                        {row.title}
                        {row.path === '/inbox' && waits !== null && (
                          <span className="count">
                            {waits}
                            <span className="hidden"> waiting</span>
                          </span>
                        )}
                      </Link>
                    </li>
                  ))}
                </ul>
              </div>
            )
          })}
        </nav>
        <div className="nav-foot">
          <button type="button" className="ghost" onClick={nextTheme}>
            <Icon name={THEME_ICON[value]} />
            {THEME_TEXT[value]}
          </button>
          {credentials !== null && (
            <button type="button" className="ghost" onClick={signOut}>
              <Icon name="key" />
              Sign out
            </button>
          )}
          <a className="ghost" href="./docs/guide">
            <Icon name="book" />
            Guide
          </a>
          <a className="ghost" href="./docs">
            <Icon name="plug" />
            API reference
          </a>
          <p className="version">Weft {VERSION}</p>
        </div>
      </div>
    </header>
  )
}
