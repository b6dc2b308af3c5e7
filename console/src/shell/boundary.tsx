/** A page that throws shows why; the frame stays. */
import { Component, type ReactNode } from 'react'
import { Failure } from '../ui/notice'

export class Boundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: null as unknown }

  static getDerivedStateFromError = (error: unknown) => ({ error })

  override render() {
    const { error } = this.state
    if (error === null) return this.props.children
    return <Failure error={error} retry={() => this.setState({ error: null })} />
  }
}
