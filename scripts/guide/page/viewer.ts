/** The page of the API: the viewer of the OpenAPI document in the colours of the other pages. */
import { colours } from './colours.js'

declare const SwaggerUIBundle: (options: { [name: string]: unknown }) => unknown

const { documentElement: root } = document
const system = matchMedia('(prefers-color-scheme: dark)')

/** The viewer knows dark colours by this class only. */
const follow = (): void => {
  const { theme } = root.dataset
  root.classList.toggle('dark-mode', theme === undefined ? system.matches : theme === 'dark')
}
follow()
system.addEventListener('change', follow)
new MutationObserver(follow).observe(root, { attributeFilter: ['data-theme'] })
colours(document.querySelector<HTMLButtonElement>('.theme')!)

/** The viewer gives these no name, and no way to scroll them by keys. */
const viewer = document.getElementById('viewer')!
new MutationObserver(() => {
  viewer.querySelector('#servers')?.setAttribute('aria-label', 'Server')
  for (const code of viewer.querySelectorAll('pre:not([tabindex])')) code.setAttribute('tabindex', '0')
}).observe(viewer, { childList: true, subtree: true })

interface System {
  React: { createElement(type: string, properties: null, ...children: unknown[]): unknown }
}
/** Its paths are links inside of buttons. The buttons set the address, too. */
const plainPaths = () => ({
  wrapComponents: {
    DeepLink:
      (_: unknown, { React }: System) =>
      (properties: { text: unknown }) =>
        React.createElement('span', null, properties.text),
  },
})

// Relative, so that it also works behind a proxy with a prefix of its own. No validator of another host is called.
SwaggerUIBundle({
  url: './openapi.json',
  dom_id: '#viewer',
  deepLinking: true,
  plugins: [plainPaths],
  validatorUrl: null,
  filter: true,
  docExpansion: 'list',
  defaultModelsExpandDepth: 0,
  syntaxHighlight: { activated: false },
})
