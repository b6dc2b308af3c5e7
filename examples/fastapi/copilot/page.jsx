/** The chat of CopilotKit with the agent of the runtime. */
import { CopilotKit } from '@copilotkit/react-core'
import { CopilotChat } from '@copilotkit/react-ui'
import { createRoot } from 'react-dom/client'
import '@copilotkit/react-ui/styles.css'

createRoot(document.getElementById('root')).render(
  <CopilotKit runtimeUrl="/copilotkit" agent="planner">
    <CopilotChat labels={{ title: 'Planner', initial: 'Which city?' }} />
  </CopilotKit>,
)
