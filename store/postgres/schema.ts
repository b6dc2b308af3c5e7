/**
 * The tables, in the schema `weft` of the database, so that they may stand beside those of others. Large values (kwargs,
 * results, finished states) have tables of their own, as in the embedded store: a patch never rewrites them. Texts are
 * compared by their bytes.
 */
import type { ClientBase } from 'pg'

/** One row per version of the schema, in order; an entry is never changed once it was released. TEXT is that of `C`. */
const VERSIONS = [
  `
  CREATE TABLE weft.health (id INTEGER PRIMARY KEY, checked_at BIGINT NOT NULL);

  CREATE TABLE weft.assistants (
    app TEXT NOT NULL, assistant_id TEXT NOT NULL, graph_id TEXT NOT NULL, name TEXT NOT NULL, description TEXT,
    config TEXT NOT NULL, context TEXT NOT NULL, metadata TEXT NOT NULL, version INTEGER NOT NULL,
    created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, keys TEXT[],
    PRIMARY KEY (app, assistant_id)
  );
  CREATE INDEX assistants_by_created ON weft.assistants (app, created_at, assistant_id);
  CREATE INDEX assistants_by_updated ON weft.assistants (app, updated_at, assistant_id);
  CREATE INDEX assistants_by_name ON weft.assistants (app, name, assistant_id);
  CREATE INDEX assistants_by_graph ON weft.assistants (app, graph_id, assistant_id);
  CREATE INDEX assistants_of_graph_by_created ON weft.assistants (app, graph_id, created_at, assistant_id);
  CREATE INDEX assistants_of_graph_by_updated ON weft.assistants (app, graph_id, updated_at, assistant_id);
  CREATE INDEX assistants_of_graph_by_name ON weft.assistants (app, graph_id, name, assistant_id);
  CREATE TABLE weft.assistant_versions (
    app TEXT NOT NULL, assistant_id TEXT NOT NULL, version INTEGER NOT NULL, graph_id TEXT NOT NULL,
    name TEXT NOT NULL, description TEXT, config TEXT NOT NULL, context TEXT NOT NULL, metadata TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (app, assistant_id, version)
  );
  CREATE TABLE weft.assistant_keys (
    app TEXT NOT NULL, key TEXT NOT NULL, assistant_id TEXT NOT NULL, PRIMARY KEY (app, key, assistant_id)
  );

  CREATE TABLE weft.threads (
    app TEXT NOT NULL, thread_id TEXT NOT NULL PRIMARY KEY,
    created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, state_updated_at BIGINT NOT NULL,
    status TEXT NOT NULL, temporary BOOLEAN NOT NULL, rev BIGINT NOT NULL, active TEXT, queue TEXT NOT NULL,
    next_position BIGINT NOT NULL, claim_no BIGINT NOT NULL, latest_checkpoint_id TEXT,
    metadata TEXT NOT NULL, config TEXT NOT NULL, settled TEXT NOT NULL, interrupts TEXT NOT NULL, error TEXT,
    ttl TEXT, expires_at BIGINT, left_by TEXT, keys TEXT[]
  );
  -- A thread that was never changed is in one index for all orders of a list: its three times are equal.
  CREATE INDEX threads_fresh ON weft.threads (app, created_at, thread_id)
    WHERE NOT temporary AND created_at = updated_at AND created_at = state_updated_at;
  CREATE INDEX threads_by_created ON weft.threads (app, created_at, thread_id)
    WHERE NOT temporary AND (created_at <> updated_at OR created_at <> state_updated_at);
  CREATE INDEX threads_by_updated ON weft.threads (app, updated_at, thread_id)
    WHERE NOT temporary AND (created_at <> updated_at OR created_at <> state_updated_at);
  CREATE INDEX threads_by_state ON weft.threads (app, state_updated_at, thread_id)
    WHERE NOT temporary AND (created_at <> updated_at OR created_at <> state_updated_at);
  CREATE INDEX threads_by_status ON weft.threads (app, status, thread_id) WHERE NOT temporary AND status <> 'idle';
  CREATE INDEX threads_busy ON weft.threads (updated_at, thread_id) WHERE status = 'busy';
  CREATE INDEX threads_expired ON weft.threads (expires_at) WHERE expires_at IS NOT NULL;
  CREATE TABLE weft.thread_keys (key TEXT NOT NULL, thread_id TEXT NOT NULL, PRIMARY KEY (key, thread_id));
  CREATE TABLE weft.states (
    thread_id TEXT NOT NULL PRIMARY KEY, latest_checkpoint_id TEXT, "values" BYTEA, rest BYTEA
  );

  CREATE TABLE weft.runs (
    app TEXT NOT NULL, run_id TEXT NOT NULL PRIMARY KEY, thread_id TEXT NOT NULL, assistant_id TEXT NOT NULL,
    graph_id TEXT NOT NULL, pool TEXT NOT NULL, status TEXT NOT NULL,
    created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL,
    multitask_strategy TEXT NOT NULL, mode TEXT NOT NULL, resumable BOOLEAN NOT NULL, temporary BOOLEAN NOT NULL,
    on_disconnect TEXT NOT NULL, due_at BIGINT NOT NULL, attempt BIGINT NOT NULL, token TEXT, heartbeats BIGINT NOT NULL,
    worker TEXT, cancel TEXT, cancel_due_at BIGINT, cancel_reason TEXT, joined_at BIGINT, started_at BIGINT,
    ended_at BIGINT, last_event_id BIGINT, resumable_until_id BIGINT, metadata TEXT NOT NULL, error TEXT, base TEXT,
    webhook TEXT, webhook_due_at BIGINT, webhook_tries BIGINT NOT NULL, idempotency_id TEXT, claim_no BIGINT,
    key_id TEXT, webhook_log TEXT
  );
  CREATE INDEX runs_by_thread ON weft.runs (thread_id, created_at, run_id);
  CREATE INDEX runs_unsettled ON weft.runs (created_at, run_id) WHERE status IN ('accepting', 'pending', 'running');
  CREATE INDEX runs_running ON weft.runs (run_id) WHERE status = 'running';
  CREATE INDEX runs_webhook_due ON weft.runs (webhook_due_at) WHERE webhook_due_at IS NOT NULL;
  CREATE INDEX runs_cancel_due ON weft.runs (cancel_due_at) WHERE cancel_due_at IS NOT NULL;
  CREATE INDEX runs_start_due ON weft.runs (due_at) WHERE status = 'pending' AND due_at > 0;
  CREATE INDEX runs_expired ON weft.runs (ended_at, thread_id) WHERE temporary AND ended_at IS NOT NULL;
  CREATE INDEX runs_claimed ON weft.runs (thread_id, claim_no) WHERE claim_no IS NOT NULL;
  CREATE INDEX runs_of_key ON weft.runs (key_id)
    WHERE key_id IS NOT NULL AND status IN ('accepting', 'pending', 'running');
  CREATE TABLE weft.payloads (
    run_id TEXT NOT NULL PRIMARY KEY, kwargs TEXT NOT NULL, result BYTEA, auth_user TEXT, traceparent TEXT
  );

  CREATE TABLE weft.checkpoints (
    thread_id TEXT NOT NULL, id TEXT NOT NULL, ns TEXT NOT NULL, parent TEXT, seq BIGINT NOT NULL,
    run_id TEXT, attempt BIGINT NOT NULL, type TEXT NOT NULL, meta_type TEXT NOT NULL, refs TEXT NOT NULL,
    metadata BYTEA NOT NULL, value BYTEA NOT NULL,
    PRIMARY KEY (thread_id, id, ns)
  );
  CREATE INDEX checkpoints_by_seq ON weft.checkpoints (thread_id, seq);
  CREATE INDEX checkpoints_by_ns ON weft.checkpoints (thread_id, ns, seq);
  CREATE TABLE weft.blobs (
    thread_id TEXT NOT NULL, ns TEXT NOT NULL, channel TEXT NOT NULL, version TEXT NOT NULL,
    type TEXT NOT NULL, value BYTEA NOT NULL,
    PRIMARY KEY (thread_id, ns, channel, version)
  );
  CREATE TABLE weft.writes (
    thread_id TEXT NOT NULL, ns TEXT NOT NULL, checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL,
    idx BIGINT NOT NULL, run_id TEXT, attempt BIGINT NOT NULL, channel TEXT NOT NULL, type TEXT NOT NULL,
    value BYTEA NOT NULL, path TEXT,
    PRIMARY KEY (thread_id, ns, checkpoint_id, task_id, idx)
  );

  CREATE TABLE weft.records (
    kind TEXT NOT NULL, app TEXT NOT NULL, id TEXT NOT NULL, parent TEXT NOT NULL, name TEXT, rev BIGINT NOT NULL,
    keys TEXT NOT NULL, due_at BIGINT, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (kind, id)
  );
  CREATE UNIQUE INDEX records_by_name ON weft.records (kind, app, name) WHERE name IS NOT NULL;
  CREATE INDEX records_by_parent ON weft.records (kind, parent, created_at, id);
  CREATE INDEX records_by_parent_id ON weft.records (kind, parent, id);
  CREATE INDEX records_by_parent_updated ON weft.records (kind, parent, updated_at, id);
  CREATE INDEX records_by_created ON weft.records (kind, created_at, id);
  CREATE INDEX records_by_updated ON weft.records (kind, updated_at, id);
  CREATE INDEX records_due ON weft.records (kind, due_at, id) WHERE due_at IS NOT NULL;

  -- "path": the labels of the namespace, each followed by a dot, so that a prefix of labels is a range of texts.
  CREATE TABLE weft.items (
    app TEXT NOT NULL, path TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,
    created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, ttl DOUBLE PRECISION, expires_at BIGINT, keys TEXT[],
    vectors BYTEA,
    PRIMARY KEY (app, path, key)
  );
  CREATE INDEX items_by_updated ON weft.items (app, updated_at, path, key);
  CREATE INDEX items_expired ON weft.items (expires_at) WHERE expires_at IS NOT NULL;
  CREATE INDEX items_indexed ON weft.items (app, updated_at, path, key) WHERE vectors IS NOT NULL;
  CREATE TABLE weft.item_keys (
    app TEXT NOT NULL, key TEXT NOT NULL, path TEXT NOT NULL, item TEXT NOT NULL, PRIMARY KEY (app, key, path, item)
  );

  CREATE FUNCTION weft.index_thread() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP <> 'INSERT' AND OLD.keys IS NOT NULL THEN
      DELETE FROM weft.thread_keys WHERE thread_id = OLD.thread_id AND key = ANY (OLD.keys);
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.keys IS NOT NULL THEN
      INSERT INTO weft.thread_keys (key, thread_id) SELECT unnest(NEW.keys), NEW.thread_id ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
  END $$;
  CREATE FUNCTION weft.index_assistant() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP <> 'INSERT' AND OLD.keys IS NOT NULL THEN
      DELETE FROM weft.assistant_keys
        WHERE app = OLD.app AND assistant_id = OLD.assistant_id AND key = ANY (OLD.keys);
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.keys IS NOT NULL THEN
      INSERT INTO weft.assistant_keys (app, key, assistant_id) SELECT NEW.app, unnest(NEW.keys), NEW.assistant_id
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
  END $$;
  CREATE FUNCTION weft.index_item() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP <> 'INSERT' AND OLD.keys IS NOT NULL THEN
      DELETE FROM weft.item_keys
        WHERE app = OLD.app AND path = OLD.path AND item = OLD.key AND key = ANY (OLD.keys);
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.keys IS NOT NULL THEN
      INSERT INTO weft.item_keys (app, key, path, item) SELECT NEW.app, unnest(NEW.keys), NEW.path, NEW.key
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
  END $$;
  ${['thread', 'assistant', 'item']
    .map(
      name => `
  CREATE TRIGGER ${name}_made AFTER INSERT ON weft.${name}s FOR EACH ROW WHEN (NEW.keys IS NOT NULL)
    EXECUTE FUNCTION weft.index_${name}();
  CREATE TRIGGER ${name}_changed AFTER UPDATE OF keys ON weft.${name}s FOR EACH ROW
    WHEN (OLD.keys IS DISTINCT FROM NEW.keys) EXECUTE FUNCTION weft.index_${name}();
  CREATE TRIGGER ${name}_removed AFTER DELETE ON weft.${name}s FOR EACH ROW WHEN (OLD.keys IS NOT NULL)
    EXECUTE FUNCTION weft.index_${name}();`,
    )
    .join('\n')}
  `,
  // Searches over all runs: each condition has the runs that meet it in the order of time.
  `
  CREATE INDEX runs_by_created ON weft.runs (app, created_at, run_id);
  CREATE INDEX runs_by_status ON weft.runs (app, status, created_at, run_id);
  CREATE INDEX runs_by_graph ON weft.runs (app, graph_id, created_at, run_id);
  CREATE INDEX runs_by_assistant ON weft.runs (app, assistant_id, created_at, run_id);
  CREATE INDEX runs_by_key ON weft.runs (app, key_id, created_at, run_id) WHERE key_id IS NOT NULL;
  CREATE INDEX runs_temporary ON weft.runs (app, created_at, run_id) WHERE temporary;
  `,
  // The planner replaces an equation of columns by others that follow from it, and then finds no index whose condition it is:
  // differences stay. Runs that wait for their time are many, and are in an index of their own.
  `
  DROP INDEX weft.threads_fresh;
  CREATE INDEX threads_unchanged ON weft.threads (app, created_at, thread_id)
    WHERE NOT temporary AND updated_at - created_at = 0 AND state_updated_at - created_at = 0;
  DROP INDEX weft.runs_unsettled;
  CREATE INDEX runs_due_now ON weft.runs (created_at, run_id)
    WHERE status IN ('accepting', 'running') OR status = 'pending' AND due_at = 0;
  `,
  // The next run of a pool is chosen among tenants.
  `
  ALTER TABLE weft.runs ADD COLUMN tenant TEXT;
  ALTER TABLE weft.runs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE weft.runs ADD COLUMN ready_at BIGINT;
  CREATE INDEX runs_ready ON weft.runs (app, pool, tenant, priority, created_at, run_id)
    WHERE status = 'pending' AND ready_at IS NOT NULL;
  `,
  // The size of the vectors that were copied for vector search (nearest.ts); 0: none since the last write.
  `
  ALTER TABLE weft.items ADD COLUMN copied INTEGER NOT NULL DEFAULT 0;
  CREATE INDEX items_uncopied ON weft.items (app, copied) WHERE vectors IS NOT NULL;
  `,
]

export const SCHEMA_VERSION = VERSIONS.length

/** "weft" as a number: workers that start at the same time migrate one after the other. */
export const MIGRATION_LOCK = 0x77656674

/** Brings the schema to the newest version; throws one sentence when a newer Weft has written it. */
export async function migrate(client: ClientBase): Promise<void> {
  await client.query('BEGIN')
  try {
    // An index of a large table takes its time, and the other workers wait for it.
    for (const limit of ['statement_timeout', 'lock_timeout']) await client.query(`SET LOCAL ${limit} = 0`)
    await client.query(`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`)
    // Not IF NOT EXISTS alone: that needs the right to create, also when everything is there.
    const { rows: there } = await client.query("SELECT 1 FROM pg_namespace WHERE nspname = 'weft'")
    if (there.length === 0) await client.query('CREATE SCHEMA weft')
    const { rows: tables } = await client.query(
      "SELECT 1 FROM pg_tables WHERE schemaname = 'weft' AND tablename = 'meta'",
    )
    if (tables.length === 0) {
      await client.query('CREATE TABLE weft.meta (version INTEGER NOT NULL)')
      await client.query('INSERT INTO weft.meta VALUES (0)')
    }
    const { rows } = await client.query<{ version: number }>('SELECT version FROM weft.meta')
    const found = Number(rows[0]?.version)
    if (found > VERSIONS.length)
      throw new Error(
        `The database has schema version ${found}, this Weft knows up to ${VERSIONS.length}: start a newer Weft, or restore the backup from before its upgrade`,
      )
    for (let version = found; version < VERSIONS.length; version++) {
      await client.query(
        VERSIONS[version]!.replaceAll(/\bTEXT\b(?!\[)/g, 'TEXT COLLATE "C"').replaceAll('TEXT[]', 'TEXT[] COLLATE "C"'),
      )
      await client.query('UPDATE weft.meta SET version = $1', [version + 1])
    }
    await client.query('COMMIT')
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {})
    throw error
  }
}
