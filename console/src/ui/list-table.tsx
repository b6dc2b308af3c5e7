import type { ReactNode } from 'react'

/** The last column of a list, whose name only screen readers tell. */
export const ACTIONS = 'Actions'

interface ListTableProps<T> {
  rows: readonly T[]
  columns: readonly string[]
  /** In place of a table without rows. */
  empty?: ReactNode
  label?: string
  /** A row of the table. */
  children: (row: T) => ReactNode
}

/** A list as a table, or what is said instead of an empty one. On a phone each row is a card. */
export function ListTable<T>({ rows, columns, empty, label, children }: ListTableProps<T>) {
  if (rows.length === 0 && empty !== undefined) return empty
  return (
    <table className="table stack" aria-label={label}>
      <thead>
        <tr>
          {columns.map(name => (
            <th key={name}>{name === ACTIONS ? <span className="hidden">{name}</span> : name}</th>
          ))}
        </tr>
      </thead>
      <tbody>{rows.map(children)}</tbody>
    </table>
  )
}
