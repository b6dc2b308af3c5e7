/** The search: its index is loaded when a person opens it. */
import MiniSearch from 'minisearch'
import { FIELDS, find } from '../search-fields.js'

interface Found {
  id: string
  page: string
  title: string
  text: string
  terms: string[]
}

const MOST = 12
const AROUND = 70

export function openSearch(dialog: HTMLDialogElement, button: HTMLButtonElement): void {
  const input = dialog.querySelector('input')!
  const list = dialog.querySelector('ol')!
  const hint = dialog.querySelector<HTMLElement>('.hint')!
  let index: MiniSearch | null = null
  let at = 0

  async function open(): Promise<void> {
    if (dialog.open) return
    dialog.showModal()
    input.select()
    if (index !== null) return
    try {
      const answer = await fetch(document.querySelector<HTMLElement>('script[data-index]')!.dataset.index!)
      if (!answer.ok) throw new Error(`status ${answer.status}`)
      index = MiniSearch.loadJSON(await answer.text(), FIELDS)
      show()
    } catch {
      hint.textContent = 'The index of the search could not be loaded: open this page from a web server.'
    }
  }

  function show(): void {
    const text = input.value.trim()
    const results = (index === null ? [] : find(index, text)).slice(0, MOST) as unknown as Found[]
    at = 0
    list.replaceChildren(...results.map(entry))
    hint.hidden = results.length > 0
    if (index !== null)
      hint.textContent = text === '' ? 'Type a word: a setting, a command, a route.' : `Nothing found for “${text}”.`
    mark()
  }

  function mark(): void {
    for (const [i, item] of [...list.children].entries()) item.setAttribute('aria-selected', `${i === at}`)
    const chosen = list.children[at]
    if (chosen === undefined) return input.removeAttribute('aria-activedescendant')
    input.setAttribute('aria-activedescendant', chosen.id)
    chosen.scrollIntoView({ block: 'nearest' })
  }

  input.addEventListener('input', show)
  input.addEventListener('keydown', event => {
    const steps = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (steps !== undefined) {
      at = Math.min(Math.max(at + steps, 0), list.children.length - 1)
      mark()
    } else if (event.key === 'Enter') list.children[at]?.querySelector('a')?.click()
    else return
    event.preventDefault()
  })
  list.addEventListener('click', () => dialog.close())
  dialog.addEventListener('click', ({ target }) => target === dialog && dialog.close())
  button.addEventListener('click', () => void open())
  document.addEventListener('keydown', event => {
    const typing = event.target instanceof HTMLInputElement
    const asked = (event.key === '/' && !typing) || (event.key === 'k' && (event.ctrlKey || event.metaKey))
    if (!asked) return
    event.preventDefault()
    void open()
  })
  button.hidden = false
}

function entry({ id, page, title, text, terms }: Found, i: number): HTMLElement {
  const item = document.createElement('li')
  item.id = `found-${i}`
  item.setAttribute('role', 'option')
  const link = document.createElement('a')
  link.href = id
  link.tabIndex = -1
  const name = document.createElement('b')
  name.textContent = title
  const where = document.createElement('small')
  where.textContent = title === page ? '' : page
  const line = document.createElement('span')
  line.append(...marked(excerpt(text, terms), terms))
  link.append(name, where, line)
  item.append(link)
  return item
}

/** The part of the text around the first term in it. */
function excerpt(text: string, terms: readonly string[]): string {
  const lower = text.toLowerCase()
  const found = terms.map(term => lower.indexOf(term)).filter(at => at >= 0)
  const from = Math.max(0, Math.min(...(found.length > 0 ? found : [0])) - AROUND)
  const part = text.slice(from, from + 3 * AROUND)
  return `${from > 0 ? '…' : ''}${part}${from + part.length < text.length ? '…' : ''}`
}

function marked(text: string, terms: readonly string[]): (string | HTMLElement)[] {
  const pattern = terms.map(term => term.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|')
  if (pattern === '') return [text]
  return text.split(new RegExp(`(${pattern})`, 'i')).map((part, i) => {
    if (i % 2 === 0) return part
    const mark = document.createElement('mark')
    mark.textContent = part
    return mark
  })
}
