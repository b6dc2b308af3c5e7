/** The namespaces as a tree. */
import { useMemo, useState } from 'react'
import { Icon } from '../../ui/icon'

interface NamespaceTreeProps {
  paths: string[][]
  chosen: string[]
  onChoose: (namespace: string[]) => void
}

interface Node {
  path: string[]
  below: Map<string, Node>
}

/** More namespaces than this begin folded. */
const FEW = 40

export function NamespaceTree({ paths, chosen, onChoose }: NamespaceTreeProps) {
  const root = useMemo(() => treeOf(paths), [paths])
  return (
    <ul className="namespaces">
      <li>
        <div className="namespace">
          <button type="button" aria-current={chosen.length === 0 ? 'true' : undefined} onClick={() => onChoose([])}>
            All namespaces
          </button>
        </div>
      </li>
      <Level of={root} chosen={chosen} onChoose={onChoose} isOpen={paths.length <= FEW} />
    </ul>
  )
}

interface LevelProps extends Omit<NamespaceTreeProps, 'paths'> {
  of: Node
  isOpen: boolean
}

const Level = ({ of, ...rest }: LevelProps) =>
  [...of.below].map(([name, node]) => <Branch key={name} name={name} of={node} {...rest} />)

function Branch({ name, of: node, chosen, onChoose, isOpen }: LevelProps & { name: string }) {
  const isAbove = node.path.every((part, i) => part === chosen[i])
  const [open, setOpen] = useState(isOpen || isAbove)
  return (
    <li>
      <div className="namespace">
        {node.below.size > 0 ? (
          <button
            type="button"
            className="namespace-fold"
            aria-label={`Below ${node.path.join(' / ')}`}
            aria-expanded={open}
            onClick={() => setOpen(!open)}
          >
            <Icon name={open ? 'down' : 'right'} />
          </button>
        ) : (
          <span className="namespace-fold" />
        )}
        <button
          type="button"
          title={node.path.join(' / ')}
          aria-current={isAbove && chosen.length === node.path.length ? 'true' : undefined}
          onClick={() => onChoose(node.path)}
        >
          {name}
        </button>
      </div>
      {open && node.below.size > 0 && (
        <ul>
          <Level of={node} chosen={chosen} onChoose={onChoose} isOpen={isOpen} />
        </ul>
      )}
    </li>
  )
}

function treeOf(paths: string[][]): Node {
  const root: Node = { path: [], below: new Map() }
  for (const path of paths) {
    let at = root
    for (const [i, part] of path.entries()) {
      const next = at.below.get(part) ?? { path: path.slice(0, i + 1), below: new Map() }
      at.below.set(part, next)
      at = next
    }
  }
  return root
}
