/** The figures of `/metrics` (docs/spec/http.md#system), and how workers report theirs to an edge. */
import typia, { type tags } from 'typia'

interface Metric {
  type: 'counter' | 'gauge' | 'histogram'
  help: string
  /** Bounds of a histogram that has others than BOUNDS, as many as those. */
  bounds?: readonly number[]
}

/** Upper bounds of histograms in seconds; a last bucket holds what is above. */
export const BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60] as const
/** For runs, which last from milliseconds to hours. */
const RUN_BOUNDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600] as const

/** Every metric. The names `lg_api_*` are those of the platform. */
export const METRICS = {
  lg_api_num_pending_runs: { type: 'gauge', help: 'Runs that wait, also those that start later.' },
  lg_api_num_running_runs: { type: 'gauge', help: 'Runs in execution.' },
  lg_api_workers_max: { type: 'gauge', help: 'Runs that all graph workers may execute at the same time.' },
  lg_api_workers_active: { type: 'gauge', help: 'Slots of graph workers in use.' },
  lg_api_workers_available: { type: 'gauge', help: 'Free slots of graph workers.' },
  lg_api_http_requests_total: { type: 'counter', help: 'Answered requests, by route and status class.' },
  lg_api_http_requests_latency_seconds: {
    type: 'histogram',
    help: 'Time from the head of a request to the end of its answer; for streams their duration.',
  },
  weft_edge_open_requests: { type: 'gauge', help: 'Requests without an answer yet, and open streams.' },
  weft_edge_open_sockets: { type: 'gauge', help: 'Open WebSockets.' },
  weft_edge_open_streams: { type: 'gauge', help: 'Open answers that stream events.' },
  weft_edge_blocked_clients: { type: 'gauge', help: 'Clients that do not read what is written to them now.' },
  weft_edge_stalled_total: { type: 'counter', help: 'Clients that were disconnected because they read nothing.' },
  weft_stream_replays_total: { type: 'counter', help: 'Replays of events of a run, by outcome.' },
  weft_stream_gaps_total: { type: 'counter', help: 'Events that arrived without the ones before; a replay follows.' },
  weft_stream_cuts_total: { type: 'counter', help: 'Streams that were cut because events of their run are lost.' },
  weft_queue_waiting: { type: 'gauge', help: 'Wake-ups of a pool that no graph worker has taken.' },
  weft_queue_taken: { type: 'gauge', help: 'Wake-ups of a pool that graph workers have taken and not finished.' },
  weft_queue_redelivered: { type: 'gauge', help: 'Taken wake-ups that were delivered more than once.' },
  weft_queue_oldest_seconds: { type: 'gauge', help: 'Age of the oldest run of a pool that waits and may start.' },
  weft_runs_ended_total: {
    type: 'counter',
    help: 'Ended runs, by status; rolled_back: removed with all that they left.',
  },
  weft_run_seconds: {
    type: 'histogram',
    help: 'Time of a run from the start of its first attempt to its end, by application and graph.',
    bounds: RUN_BOUNDS,
  },
  weft_run_wait_seconds: {
    type: 'histogram',
    help: 'Time of a run from when it might start to the start of its first attempt, by application and graph.',
    bounds: RUN_BOUNDS,
  },
  weft_graph_runs_total: { type: 'counter', help: 'Ended runs, by application, graph and status.' },
  weft_assistant_runs_total: { type: 'counter', help: 'Ended runs, by assistant and status.' },
  weft_running_oldest_seconds: { type: 'gauge', help: 'Time since the start of the run of a pool that runs longest.' },
  weft_run_claims_total: { type: 'counter', help: 'Claims of runs, by answer. Each one with "taken" is an attempt.' },
  weft_run_choices_total: {
    type: 'counter',
    help: 'Questions for the next run of a pool that WEFT_SCHEDULING answers; "none": no run may start now.',
  },
  weft_run_hand_overs_total: {
    type: 'counter',
    help: 'Runs that were claimed with their create, by answer of the graph worker; refused ones go through the work queue.',
  },
  weft_run_takeovers_total: { type: 'counter', help: 'Runs that were taken from a worker without heartbeats.' },
  weft_calls_refused_total: {
    type: 'counter',
    help: 'Calls that were answered with an error, by call and code; "fenced" is a write of an attempt that has lost its run.',
  },
  weft_webhooks_total: { type: 'counter', help: 'Tries to deliver a webhook, by outcome.' },
  weft_clock_ahead_seconds: { type: 'gauge', help: 'How far the clock is ahead of the one of the broker.' },
  weft_store_bytes: { type: 'gauge', help: 'Disk space that the store uses.' },
  weft_disk_free_bytes: { type: 'gauge', help: 'Free space of the disk with the data folder.' },
  weft_stream_bytes: { type: 'gauge', help: 'Bytes that a stream of the broker stores.' },
  weft_stream_limit_bytes: { type: 'gauge', help: 'Bytes that a stream of the broker may store.' },
  weft_stream_copies: { type: 'gauge', help: 'Copies that a stream of the broker should have.' },
  weft_stream_copy_current: {
    type: 'gauge',
    help: '1 for a copy of a stream that has all that its leader has, by NATS server; 0 for another one.',
  },
  weft_stream_copy_lag: {
    type: 'gauge',
    help: 'Operations that a copy of a stream is behind its leader, by NATS server.',
  },
  weft_broker_bytes: { type: 'gauge', help: 'Bytes that all streams store at the broker.' },
  weft_broker_api_errors_total: {
    type: 'counter',
    help: 'Questions to JetStream that the broker answered with an error.',
  },
  weft_broker_disconnects_total: { type: 'counter', help: 'How often a process lost its connection to the broker.' },
  weft_broker_refusals_total: { type: 'counter', help: 'Operations that the broker refused to a process.' },
  weft_pool_slots: { type: 'gauge', help: 'Runs that a graph worker may execute at the same time.' },
  weft_pool_running: { type: 'gauge', help: 'Runs that a graph worker executes.' },
  weft_pool_jobs_total: { type: 'counter', help: 'Wake-ups that a graph worker has received.' },
  weft_pool_redeliveries_total: { type: 'counter', help: 'Received wake-ups that had been delivered before.' },
  weft_lease_age_seconds: {
    type: 'gauge',
    help: 'Age of the oldest confirmed heartbeat of the runs that a graph worker executes.',
  },
  weft_foreign_frames_total: {
    type: 'counter',
    help: 'Frames of graph hosts that were dropped: for a slot without a run.',
  },
  weft_run_stops_total: { type: 'counter', help: 'Runs that a graph worker stopped before their end, by reason.' },
  weft_publish_seconds: { type: 'histogram', help: 'Time until the broker confirms a message of stored events.' },
  weft_publish_repeats_total: { type: 'counter', help: 'How often unconfirmed stored events were sent again.' },
  weft_hosts: { type: 'gauge', help: 'Graph hosts of a graph worker.' },
  weft_hosts_held: {
    type: 'gauge',
    help: 'Graph hosts whose event loop a run holds for 100 ms or more; format=json names the run.',
  },
  weft_host_loop_delay_seconds: {
    type: 'gauge',
    help: 'The longest delay of the event loop among the graph hosts of a graph worker.',
  },
  weft_host_ends_total: { type: 'counter', help: 'Graph hosts that ended or were killed, by reason.' },
  weft_store_write_seconds: { type: 'histogram', help: 'Time of a write to the store.' },
  weft_store_failures_total: { type: 'counter', help: 'Writes to the store that threw.' },
  weft_store_ping_seconds: {
    type: 'gauge',
    help: 'Time of a small read of the store, when the metrics were asked for.',
  },
  weft_webhooks_under_way: { type: 'gauge', help: 'Deliveries of webhooks that wait for an answer.' },
  weft_deploy_tasks: { type: 'gauge', help: 'Tasks that a deploy worker executes, by kind.' },
  weft_deploy_tasks_total: { type: 'counter', help: 'Executions of deploy tasks, by kind and outcome.' },
  weft_deploy_task_seconds: { type: 'histogram', help: 'Time of an execution of a deploy task, by kind.' },
  weft_replica_exits_total: { type: 'counter', help: 'Replicas of deployments that ended and were started again.' },
  weft_event_loop_delay_seconds: {
    type: 'gauge',
    help: 'Delay of the event loop since the last report, by percentile.',
  },
  weft_process_resident_bytes: { type: 'gauge', help: 'Memory of the process.' },
  weft_process_cpu_seconds_total: { type: 'counter', help: 'CPU time of the process.' },
  weft_build_info: { type: 'gauge', help: '1, with the version of Weft and the protocol of each process.' },
  weft_up: { type: 'gauge', help: '1 for each process that has reported.' },
} as const satisfies { [name: string]: Metric }
export type MetricName = keyof typeof METRICS

export function boundsOf(name: MetricName): readonly number[] {
  const { bounds = BOUNDS }: Metric = METRICS[name]
  return bounds
}

type Count = number & tags.Minimum<0>

/** One figure; a histogram has `counts` (one more than BOUNDS, not cumulative) and their `sum`. */
export interface Sample {
  name: string & tags.MaxLength<64>
  labels?: { [label: string]: string & tags.MaxLength<128> }
  value?: number
  counts?: Count[] & tags.MinItems<16> & tags.MaxItems<16>
  sum?: number
}

/** A graph host, as its graph worker sees it. */
export interface HostReport {
  app: string & tags.MaxLength<128>
  pool: string & tags.MaxLength<128>
  /** Process id on the machine of its graph worker. */
  pid: Count
  /** Runs that it executes. */
  runs: Count
  /** At the last measurement, or of the block that lasts. */
  loop_delay_seconds: Count
  /** For how long the code of one run holds the event loop now; 0: less than 100 ms. */
  held_seconds: Count
  /** That run; null: none, or code of no run. */
  run: {
    run_id: string & tags.MaxLength<64>
    thread_id: string & tags.MaxLength<64>
    graph_id: string & tags.MaxLength<512>
  } | null
}

/** The answer of a worker to `event.metrics.asked`. */
export interface MetricsReport {
  role: 'resources' | 'graphs' | 'deployer'
  /** The pool of a graph worker, as the broker knows it. The receiver sets it. */
  pool?: string
  /** Unique among the workers of the role. */
  worker: string & tags.MinLength<1> & tags.MaxLength<128>
  samples: Sample[] & tags.MaxItems<1000>
  /** Set for graph workers. */
  hosts?: HostReport[] & tags.MaxItems<256>
}

export const validateMetricsReport = typia.createValidate<MetricsReport>()

/** All that an edge has collected. */
export interface CollectedMetrics {
  samples: Sample[]
  hosts: (HostReport & { worker: string })[]
}

/** The answer of rpc.system.metrics: figures that are the same for all workers. */
export interface ClusterMetrics {
  samples: Sample[]
}

export const validateClusterMetrics = typia.createValidate<ClusterMetrics>()
