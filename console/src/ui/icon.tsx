/** Icons of one stroke, drawn on 16 × 16. */
const PATHS = {
  chat: 'M2.5 3.5h11v7h-6l-3 2.5v-2.5h-2z',
  thread: 'M3 4h7a2 2 0 0 1 0 4H6a2 2 0 0 0 0 4h7',
  runs: 'M5 3.5v9l7-4.5z',
  graph:
    'M5.5 4a1.5 1.5 0 1 1-3 0 1.5 1.5 0 0 1 3 0zM13.5 8a1.5 1.5 0 1 1-3 0 1.5 1.5 0 0 1 3 0zM5.5 12a1.5 1.5 0 1 1-3 0 1.5 1.5 0 0 1 3 0zM5.4 4.7l5.2 2.6M5.4 11.3l5.2-2.6',
  workers: 'M2.5 3.5h11v3h-11zM2.5 9.5h11v3h-11zM5 5h.01M5 11h.01',
  log: 'M3 2.500h10v11H3zM5.500 5.500h5M5.500 8h5M5.500 10.500h3',
  clock: 'M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 5v3l2 1.5',
  store:
    'M3 4.5C3 3.4 5.2 2.5 8 2.5s5 .9 5 2-2.2 2-5 2-5-.9-5-2zM3 4.5v7c0 1.1 2.2 2 5 2s5-.9 5-2v-7M3 8c0 1.1 2.2 2 5 2s5-.9 5-2',
  rocket:
    'M8 10.5 5.5 8c.6-2.6 2.4-5 7-5.5-.5 4.6-2.9 6.4-5.5 7zM5.5 8 3 8.500l1.5-2 1.8-.3M8 10.500l-.5 2.5 2-1.5.3-1.800M4 11l-1.5 2.5',
  home: 'M2.5 7.5 8 3l5.5 4.500M4 6.500v6.500h8V6.5',
  search: 'M7 2.500a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.5 10.500l3 3',
  menu: 'M2.5 4.500h11M2.5 8h11M2.5 11.500h11',
  close: 'M4 4l8 8M12 4l-8 8',
  check: 'M3 8.500l3.5 3.500L13 5',
  plug: 'M6 2.500v3M10 2.500v3M4 5.500h8v2a4 4 0 0 1-8 0zM8 11.500v2',
  warn: 'M8 2.5 14 13H2zM8 6.500v3M8 11.300v.1',
  empty: 'M2.5 9.5 4.5 3.500h7l2 6v3h-11zM2.5 9.500h3l1 1.500h3l1-1.500h3',
  sun: 'M8 5.500a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM8 1.500v1.500M8 13v1.500M1.5 8H3M13 8h1.500M3.4 3.400l1 1M11.6 11.600l1 1M3.4 12.600l1-1M11.6 4.400l1-1',
  moon: 'M13 9.500A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.500z',
  contrast: 'M8 2.500a5.5 5.5 0 1 0 0 11zM8 2.500a5.5 5.5 0 0 1 0 11',
  key: 'M10.5 2.500a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8.4 7.6 3 13M4.5 11.500l1.5 1.500M6.5 9.5 8 11',
  book: 'M3 3.500c2 0 4 .3 5 1.3 1-1 3-1.3 5-1.300v9c-2 0-4 .3-5 1-1-.7-3-1-5-1zM8 4.800v8.7',
  plus: 'M8 3v10M3 8h10',
  send: 'M8 13V3M4 7l4-4 4 4',
  stop: 'M4.5 4.500h7v7h-7z',
  edit: 'M10.5 3 13 5.5 6 12.500l-3 .5.5-3zM9 4.5 11.5 7',
  redo: 'M13 8a5 5 0 1 1-1.5-3.500M13 2.500v3h-3',
  settings: 'M3 4.500h5M11 4.500h2M3 11.500h2M8 11.500h5M9.5 3v3M6.5 10v3',
  tool: 'M10 3a3 3 0 0 0-2.8 4L3 11.2 4.8 13 9 8.800A3 3 0 0 0 13 6l-2 .8L9.2 5z',
  left: 'M10 3.5 5.5 8l4.5 4.5',
  right: 'M6 3.5 10.5 8 6 12.5',
  down: 'M3.5 6 8 10.5 12.5 6',
  columns: 'M2.5 3h11v10h-11zM8 3v10',
  play: 'M5 3.500v9l7-4.500z',
  fork: 'M4.5 3v10M4.5 9c5 0 7-1 7-4M11.5 3v2',
  diff: 'M5 3v5M2.5 5.500h5M8.5 11.500h5M13 3 3 13',
  copy: 'M5.5 5.500h8v8h-8zM2.5 10.500v-8h8',
  trash: 'M3 4.500h10M6 4.500v-2h4v2M4.5 4.500l.5 9h6l.5-9',
  pause: 'M5.5 3.500v9M10.5 3.500v9',
  question: 'M6 6a2 2 0 1 1 2.8 1.800c-.6.3-.8.7-.8 1.400M8 11.500v.1M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2z',
} as const
export type IconName = keyof typeof PATHS

export const Icon = ({ name }: { name: IconName }) => (
  <svg className="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
    <path d={PATHS[name]} />
  </svg>
)

/** The mark of Weft: threads that cross. */
export const Mark = () => (
  <svg className="mark" viewBox="0 0 32 32" width="22" height="22" aria-hidden="true" focusable="false">
    <rect width="32" height="32" rx="7" />
    <path d="M6 11h5M15 11h11M6 21h11M21 21h5" />
    <path d="M11 6v11M11 21v5M21 6v1M21 11v15" opacity=".62" />
  </svg>
)
