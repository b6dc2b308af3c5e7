/** The tasks of a checkpoint: questions, errors, results, and the states of subgraphs. */
import { client } from '../../api/client'
import { useLoad } from '../../api/load'
import { Icon } from '../../ui/icon'
import { Json } from '../../ui/json'
import { Empty, LoadedView, Trouble } from '../../ui/notice'
import { idOf, type State } from './state'

export function Tasks({ threadId, state }: { threadId: string; state: State }) {
  const loaded = useLoad(`tasks ${threadId} ${idOf(state)}`, () =>
    client.threads.getState<unknown>(threadId, state.checkpoint, { subgraphs: true }),
  )
  return <LoadedView of={loaded}>{({ tasks }) => <TaskList tasks={tasks} />}</LoadedView>
}

const TaskList = ({ tasks }: { tasks: State['tasks'] }) =>
  tasks.length === 0 ? (
    <Empty title="No task" icon="runs">
      Nothing runs after this checkpoint.
    </Empty>
  ) : (
    <ul className="tasks">
      {tasks.map(task => (
        <li key={task.id}>
          <h3>
            <Icon name="runs" />
            {task.name}
            <span className="muted mono">{task.id.slice(0, 8)}</span>
          </h3>
          {task.error !== null && <Trouble error={task.error && new Error(task.error)} />}
          {task.interrupts.map((interrupt, i) => (
            <div key={interrupt.id ?? i}>
              <p className="muted">Question</p>
              <Json value={interrupt.value} />
            </div>
          ))}
          {task.result != null && (
            <div>
              <p className="muted">Result</p>
              <Json value={task.result} open={1} />
            </div>
          )}
          {task.state != null && (
            <div className="subgraph">
              <p className="muted">Subgraph {task.state.checkpoint?.checkpoint_ns}</p>
              <Json value={task.state.values} open={1} />
              <TaskList tasks={task.state.tasks ?? []} />
            </div>
          )}
        </li>
      ))}
    </ul>
  )
