/** Tables and indexes of the embedded store. `user_version` names the layout; a newer one is refused. */
export const LAYOUT = 1

export const TABLES = `
create table if not exists assistants (
  app text not null, assistant_id text not null, graph_id text not null, name text not null, description text,
  config text not null, context text not null, metadata text not null, version integer not null,
  created_at integer not null, updated_at integer not null,
  primary key (app, assistant_id)
) without rowid;

create table if not exists threads (
  thread_id text primary key, app text not null, created_at integer not null, updated_at integer not null,
  state_updated_at integer not null, metadata text not null, config text not null, status text not null,
  interrupts text not null, error text, temporary integer not null, rev integer not null, active text,
  queue text not null, next_no integer not null, claim_no integer not null, head text
) without rowid;

create table if not exists thread_states (
  thread_id text primary key, head text, vals blob, rest blob
);

create table if not exists runs (
  run_id text primary key, app text not null, thread_id text not null, assistant_id text not null, graph_id text not null,
  pool text not null, status text not null, created_at integer not null, updated_at integer not null,
  metadata text not null, multitask_strategy text not null, mode text not null, resumable integer not null,
  temporary integer not null, on_disconnect text not null, due_at integer not null, attempt integer not null,
  token text, hb integer not null, worker text, cancel text, cancel_due_at integer, started_at integer,
  ended_at integer, last_event_id integer, error text
) without rowid;
create index if not exists runs_by_thread on runs (thread_id);
create index if not exists runs_unsettled on runs (created_at) where status in ('pending', 'running');
create index if not exists runs_cancel_due on runs (cancel_due_at) where cancel_due_at is not null;
create index if not exists runs_expired on runs (ended_at) where temporary = 1 and ended_at is not null;

create table if not exists run_bodies (
  run_id text primary key, kwargs text not null, result blob
);

create table if not exists checkpoints (
  thread_id text not null, ns text not null, id text not null, seq integer not null, parent text, run_id text,
  attempt integer not null, type text not null, value blob not null, meta_type text not null, metadata blob not null,
  refs text not null,
  primary key (thread_id, ns, id)
);
create index if not exists checkpoints_by_seq on checkpoints (thread_id, seq);

create table if not exists blobs (
  thread_id text not null, ns text not null, channel text not null, version text not null, type text not null,
  value blob not null,
  primary key (thread_id, ns, channel, version)
);

create table if not exists writes (
  thread_id text not null, ns text not null, checkpoint_id text not null, task_id text not null, idx integer not null,
  channel text not null, type text not null, value blob not null,
  primary key (thread_id, ns, checkpoint_id, task_id, idx)
);
`

/** Columns of runs without the payload, in the order of the table. */
export const RUN_COLUMNS = [
  'run_id',
  'app',
  'thread_id',
  'assistant_id',
  'graph_id',
  'pool',
  'status',
  'created_at',
  'updated_at',
  'metadata',
  'multitask_strategy',
  'mode',
  'resumable',
  'temporary',
  'on_disconnect',
  'due_at',
  'attempt',
  'token',
  'hb',
  'worker',
  'cancel',
  'cancel_due_at',
  'started_at',
  'ended_at',
  'last_event_id',
  'error',
] as const

export const THREAD_COLUMNS = [
  'thread_id',
  'app',
  'created_at',
  'updated_at',
  'state_updated_at',
  'metadata',
  'config',
  'status',
  'interrupts',
  'error',
  'temporary',
  'rev',
  'active',
  'queue',
  'next_no',
  'claim_no',
  'head',
] as const

export const ASSISTANT_COLUMNS = [
  'app',
  'assistant_id',
  'graph_id',
  'name',
  'description',
  'config',
  'context',
  'metadata',
  'version',
  'created_at',
  'updated_at',
] as const
