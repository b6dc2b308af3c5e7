/** The deployments, and one of them with its revisions. */
import { useParams } from 'wouter'
import '../styles/runs.css'
import '../styles/control.css'
import { DeploymentView } from './deployments/deployment'
import { DeploymentList } from './deployments/list'

export default function Deployments() {
  const { id } = useParams()
  return id === undefined ? <DeploymentList /> : <DeploymentView key={id} id={id} />
}
