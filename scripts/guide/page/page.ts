/** The code of a page: search, colours, the menu of narrow screens, copying code. */
import { colours } from './colours.js'
import { openSearch } from './search.js'

const find = <E extends HTMLElement>(selector: string): E => document.querySelector<E>(selector)!

function menu(): void {
  const button = find('.menu')
  const set = (open: boolean) => {
    button.setAttribute('aria-expanded', `${open}`)
    document.body.classList.toggle('menu-open', open)
  }
  button.addEventListener('click', () => set(button.getAttribute('aria-expanded') !== 'true'))
  document.addEventListener('keydown', ({ key }) => key === 'Escape' && set(false))
  find('#nav').addEventListener('click', ({ target }) => target instanceof HTMLAnchorElement && set(false))
  find('#nav [aria-current]')?.scrollIntoView({ block: 'center' })
}

function copying(): void {
  for (const figure of document.querySelectorAll('figure.source')) {
    const button = document.createElement('button')
    button.type = 'button'
    button.className = 'copy'
    button.textContent = 'Copy'
    button.addEventListener('click', async () => {
      await navigator.clipboard.writeText(figure.querySelector('code')!.textContent!.trimEnd())
      button.textContent = 'Copied'
      setTimeout(() => (button.textContent = 'Copy'), 1500)
    })
    figure.append(button)
  }
}

/** Marks the heading whose text is being read. */
function contents(): void {
  const links = new Map([...document.querySelectorAll<HTMLAnchorElement>('.contents a')].map(a => [a.hash.slice(1), a]))
  const headings = [...document.querySelectorAll<HTMLElement>('h2[id], h3[id]')]
  const mark = () => {
    const current = headings.findLast(heading => heading.getBoundingClientRect().top < 120) ?? headings[0]
    for (const [id, link] of links)
      if (id === current?.id) link.setAttribute('aria-current', 'true')
      else link.removeAttribute('aria-current')
  }
  if (links.size === 0) return
  addEventListener('scroll', mark, { passive: true })
  mark()
}

colours(find<HTMLButtonElement>('.theme'))
menu()
copying()
contents()
openSearch(find<HTMLDialogElement>('dialog.search'), find<HTMLButtonElement>('.find'))
// Where an edge serves the guide it serves these, too.
if (/\/docs\/guide\/[^/]+$/.test(location.pathname)) find('.served').hidden = false
