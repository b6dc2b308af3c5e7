/** The list of pages: a column, and a drawer on a phone. */
import { useState } from 'react'
import { Link } from 'wouter'
import { session, signOut } from '../api/session'
import { useStore } from '../api/store'
import { GROUPS, PAGES, type PageRow } from '../pages'
import { Icon, Mark } from '../ui/icon'
import { openPalette } from './palette'
import { nextTheme, theme } from './theme'

const THEME_TEXT = { system: 'Theme: system', light: 'Theme: light', dark: 'Theme: dark' }
const THEME_ICON = { system: 'contrast', light: 'sun', dark: 'moon' } as const

export function Nav({ current }: { current: PageRow | undefined }) {
  const [open, setOpen] = useState(false)
  const { value } = useStore(theme)
  const { credentials } = useStore(session)
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
          <a className="ghost" href="./docs">
            <Icon name="book" />
            API reference
          </a>
          <p className="version">Weft {VERSION}</p>
        </div>
      </div>
    </header>
  )
}
