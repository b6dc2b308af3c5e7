import type { ButtonHTMLAttributes, ReactNode } from 'react'
import { Icon, type IconName } from './icon'

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  kind?: 'primary' | 'plain' | 'ghost' | 'danger'
  icon?: IconName
  /** The name of a button that shows its icon only. */
  label?: string
  children?: ReactNode
}

export const Button = ({ kind = 'plain', icon, label, children, type = 'button', ...rest }: ButtonProps) => (
  <button
    {...rest}
    type={type}
    className={`button ${kind} ${children === undefined ? 'icon-only' : ''}`}
    aria-label={label}
    title={label}
  >
    {icon !== undefined && <Icon name={icon} />}
    {children}
  </button>
)
