/** Dark, light, or as the system: kept in this browser. */
import { createStore } from '../api/store'

export type Theme = 'system' | 'light' | 'dark'
const STORED = 'weft.theme'
const NEXT: { [theme in Theme]: Theme } = { system: 'light', light: 'dark', dark: 'system' }

export const theme = createStore<{ value: Theme }>({ value: read() })

function read(): Theme {
  const stored = localStorage.getItem(STORED)
  return stored === 'light' || stored === 'dark' ? stored : 'system'
}

export function applyTheme(): void {
  document.documentElement.dataset.theme = theme.get().value
}

export function setTheme(value: Theme): void {
  localStorage.setItem(STORED, value)
  theme.change({ value })
  applyTheme()
}

export const nextTheme = (): void => setTheme(NEXT[theme.get().value])
