import '@fontsource-variable/inter'
import '@fontsource-variable/jetbrains-mono'
import './styles/tokens.css'
import './styles/base.css'
import './styles/shell.css'
import './styles/parts.css'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { watchConnection } from './api/connection'
import { App } from './app'
import { applyTheme } from './shell/theme'

applyTheme()
watchConnection()
createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <App />
  </StrictMode>,
)
