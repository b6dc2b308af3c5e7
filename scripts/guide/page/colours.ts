/** The button that changes the colours: as the system, light, dark. Kept in this browser, as the console keeps it. */
const THEMES = ['system', 'light', 'dark'] as const
const STORED = 'weft.theme'

export function colours(button: HTMLButtonElement): void {
  const stored = localStorage.getItem(STORED)
  let at = Math.max(0, THEMES.indexOf(stored as (typeof THEMES)[number]))
  const show = () => {
    const theme = THEMES[at]!
    if (theme === 'system') delete document.documentElement.dataset.theme
    else document.documentElement.dataset.theme = theme
    button.setAttribute('aria-label', `Colours: ${theme === 'system' ? 'as the system' : theme}`)
    button.title = button.getAttribute('aria-label')!
  }
  button.addEventListener('click', () => {
    at = (at + 1) % THEMES.length
    localStorage.setItem(STORED, THEMES[at]!)
    show()
  })
  show()
  button.hidden = false
}
