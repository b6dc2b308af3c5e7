/** Notices that a page shows in place of data. */
import type { ReactNode } from 'react'
import { isUnreachable, sentenceOf } from '../api/client'
import type { Loaded } from '../api/load'
import { Button } from './button'
import { Icon, type IconName } from './icon'

interface EmptyProps {
  title: string
  icon?: IconName
  children?: ReactNode
}

export const Empty = ({ title, icon = 'empty', children }: EmptyProps) => (
  <div className="notice">
    <Icon name={icon} />
    <h2>{title}</h2>
    {children !== undefined && <div className="muted">{children}</div>}
  </div>
)

export const Loading = () => (
  <div className="notice" role="status">
    <span className="spinner" />
    <span className="hidden">Loading</span>
  </div>
)

const LINES = ['long', 'short', 'middle', 'long', 'short']

/** The place of a list while it loads. */
export const Skeleton = () => (
  <div className="skeleton" role="status">
    <span className="hidden">Loading</span>
    {LINES.map((line, i) => (
      <span key={i} className={`skeleton-line ${line}`} />
    ))}
  </div>
)

export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const [icon, title, sentence] = isUnreachable(error)
    ? (['plug', 'The server cannot be reached', 'The page is loaded as soon as it answers.'] as const)
    : (['warn', 'That did not work', sentenceOf(error)] as const)
  return (
    <div className="notice notice-bad" role="alert">
      <Icon name={icon} />
      <h2>{title}</h2>
      <p className="muted">{sentence}</p>
      {retry !== undefined && <Button onClick={retry}>Try again</Button>}
    </div>
  )
}

/** A line above or below a form. */
export const Trouble = ({ error }: { error: unknown }) =>
  error === null || error === undefined ? null : (
    <p className="trouble" role="alert">
      <Icon name="warn" />
      {sentenceOf(error)}
    </p>
  )

interface LoadedViewProps<T> {
  of: Loaded<T>
  children: (data: T) => ReactNode
}

/** The data, or why there are none. An error beside older data is a line above them. */
export function LoadedView<T>({ of: { data, error, reload }, children }: LoadedViewProps<T>) {
  if (data === undefined) return error === undefined ? <Skeleton /> : <Failure error={error} retry={reload} />
  // Nobody knows whether the list is still empty.
  if (error !== undefined && Array.isArray(data) && data.length === 0) return <Failure error={error} retry={reload} />
  return (
    <>
      <Trouble error={error} />
      {children(data)}
    </>
  )
}
