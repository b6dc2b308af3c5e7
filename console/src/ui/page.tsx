import type { ReactNode } from 'react'

interface PageProps {
  title: ReactNode
  note?: ReactNode
  actions?: ReactNode
  children: ReactNode
}

/** The head of a page and its content. */
export const Page = ({ title, note, actions, children }: PageProps) => (
  <div className="page">
    <div className="page-head">
      <div>
        <h1>{title}</h1>
        {note !== undefined && <p className="muted">{note}</p>}
      </div>
      {actions !== undefined && <div className="actions">{actions}</div>}
    </div>
    {children}
  </div>
)
