/**
 * The tables. Large values (kwargs, results, finished states) have separate tables, so that a patch of a run or a thread
 * never rewrites them. Every query of the adapter has its index here.
 */
import type { Database } from 'libsql'

/** One row per version of the schema, in order; an entry is never changed once it was released. */
const VERSIONS = [
  `
  CREATE TABLE assistants (
    app TEXT NOT NULL, assistant_id TEXT NOT NULL, graph_id TEXT NOT NULL, name TEXT NOT NULL, description TEXT,
    config TEXT NOT NULL, context TEXT NOT NULL, metadata TEXT NOT NULL, version INTEGER NOT NULL,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
    PRIMARY KEY (app, assistant_id)
  );

  CREATE TABLE threads (
    app TEXT NOT NULL, thread_id TEXT NOT NULL PRIMARY KEY,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, state_updated_at INTEGER NOT NULL,
    status TEXT NOT NULL, temporary INTEGER NOT NULL, rev INTEGER NOT NULL, active TEXT, queue TEXT NOT NULL,
    next_no INTEGER NOT NULL, claim_no INTEGER NOT NULL, head TEXT,
    metadata TEXT NOT NULL, config TEXT NOT NULL, settled TEXT NOT NULL, interrupts TEXT NOT NULL, error TEXT
  );
  CREATE INDEX threads_busy ON threads (updated_at) WHERE status = 'busy';
  CREATE TABLE states (
    thread_id TEXT NOT NULL PRIMARY KEY REFERENCES threads ON DELETE CASCADE, head TEXT, "values" BLOB, rest BLOB
  );

  CREATE TABLE runs (
    app TEXT NOT NULL, run_id TEXT NOT NULL PRIMARY KEY, thread_id TEXT NOT NULL, assistant_id TEXT NOT NULL,
    graph_id TEXT NOT NULL, pool TEXT NOT NULL, status TEXT NOT NULL,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
    multitask_strategy TEXT NOT NULL, mode TEXT NOT NULL, resumable INTEGER NOT NULL, temporary INTEGER NOT NULL,
    on_disconnect TEXT NOT NULL, due_at INTEGER NOT NULL, attempt INTEGER NOT NULL, token TEXT, hb INTEGER NOT NULL,
    worker TEXT, cancel TEXT, cancel_due_at INTEGER, joined_at INTEGER, started_at INTEGER, ended_at INTEGER, last_event_id INTEGER, resumable_until_id INTEGER,
    metadata TEXT NOT NULL, error TEXT, base TEXT, webhook TEXT, webhook_due_at INTEGER, webhook_tries INTEGER NOT NULL,
    idempotency_id TEXT
  );
  CREATE TABLE payloads (
    run_id TEXT NOT NULL PRIMARY KEY REFERENCES runs ON DELETE CASCADE, kwargs TEXT NOT NULL, result BLOB
  );
  CREATE INDEX runs_by_thread ON runs (thread_id, created_at, run_id);
  CREATE INDEX runs_unsettled ON runs (created_at, run_id) WHERE status IN ('accepting', 'pending', 'running');
  CREATE INDEX runs_webhook_due ON runs (webhook_due_at) WHERE webhook_due_at IS NOT NULL;
  CREATE INDEX runs_cancel_due ON runs (cancel_due_at) WHERE cancel_due_at IS NOT NULL;
  CREATE INDEX runs_expired ON runs (ended_at, thread_id) WHERE temporary = 1 AND ended_at IS NOT NULL;

  CREATE TABLE checkpoints (
    thread_id TEXT NOT NULL, id TEXT NOT NULL, ns TEXT NOT NULL, parent TEXT, seq INTEGER NOT NULL,
    run_id TEXT, attempt INTEGER NOT NULL, type TEXT NOT NULL, meta_type TEXT NOT NULL, refs TEXT NOT NULL,
    metadata BLOB NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (thread_id, id, ns)
  );
  CREATE INDEX checkpoints_by_seq ON checkpoints (thread_id, seq);
  CREATE INDEX checkpoints_by_ns ON checkpoints (thread_id, ns, seq);
  CREATE TABLE blobs (
    thread_id TEXT NOT NULL, ns TEXT NOT NULL, channel TEXT NOT NULL, version TEXT NOT NULL,
    type TEXT NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (thread_id, ns, channel, version)
  );
  CREATE TABLE writes (
    thread_id TEXT NOT NULL, ns TEXT NOT NULL, checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL,
    idx INTEGER NOT NULL, run_id TEXT, attempt INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (thread_id, ns, checkpoint_id, task_id, idx)
  );
  `,
  `
  CREATE TABLE records (
    kind TEXT NOT NULL, app TEXT NOT NULL, id TEXT NOT NULL, parent TEXT NOT NULL, name TEXT, rev INTEGER NOT NULL,
    keys TEXT NOT NULL, due_at INTEGER, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (kind, id)
  );
  CREATE UNIQUE INDEX records_by_name ON records (kind, app, name) WHERE name IS NOT NULL;
  CREATE INDEX records_by_parent ON records (kind, parent, created_at, id);
  CREATE INDEX records_by_parent_id ON records (kind, parent, id);
  CREATE INDEX records_by_parent_updated ON records (kind, parent, updated_at, id);
  CREATE INDEX records_by_created ON records (kind, created_at, id);
  CREATE INDEX records_by_updated ON records (kind, updated_at, id);
  CREATE INDEX records_due ON records (kind, due_at, id) WHERE due_at IS NOT NULL;
  CREATE INDEX runs_start_due ON runs (due_at) WHERE status = 'pending' AND due_at > 0;
  `,
  `
  ALTER TABLE runs ADD COLUMN claim_no INTEGER;
  CREATE INDEX runs_claimed ON runs (thread_id, claim_no) WHERE claim_no IS NOT NULL;
  `,
  // A thread that was never changed is in one index for all orders of a list: its three times are equal. (Measured:
  // 0.8 µs of 7 µs for an insert; an index for each time costs 1.8 to 2.8 µs.)
  `
  ALTER TABLE threads ADD COLUMN ttl TEXT;
  ALTER TABLE threads ADD COLUMN expires_at INTEGER;
  ALTER TABLE threads ADD COLUMN keys TEXT;
  CREATE INDEX threads_fresh ON threads (app, created_at, thread_id)
    WHERE temporary = 0 AND created_at = updated_at AND created_at = state_updated_at;
  CREATE INDEX threads_by_created ON threads (app, created_at, thread_id)
    WHERE temporary = 0 AND (created_at <> updated_at OR created_at <> state_updated_at);
  CREATE INDEX threads_by_updated ON threads (app, updated_at, thread_id)
    WHERE temporary = 0 AND (created_at <> updated_at OR created_at <> state_updated_at);
  CREATE INDEX threads_by_state ON threads (app, state_updated_at, thread_id)
    WHERE temporary = 0 AND (created_at <> updated_at OR created_at <> state_updated_at);
  CREATE INDEX threads_by_status ON threads (app, status, thread_id) WHERE temporary = 0 AND status <> 'idle';
  CREATE INDEX threads_expired ON threads (expires_at) WHERE expires_at IS NOT NULL;
  CREATE TABLE thread_keys (key TEXT NOT NULL, thread_id TEXT NOT NULL, PRIMARY KEY (key, thread_id)) WITHOUT ROWID;
  UPDATE threads SET keys = '["*"]' WHERE metadata <> '{}';
  INSERT INTO thread_keys SELECT '*', thread_id FROM threads WHERE keys IS NOT NULL;
  CREATE TRIGGER thread_keys_changed AFTER UPDATE OF keys ON threads BEGIN
    DELETE FROM thread_keys WHERE thread_id = old.thread_id AND key IN (SELECT value FROM json_each(old.keys));
    INSERT OR IGNORE INTO thread_keys SELECT value, new.thread_id FROM json_each(new.keys);
  END;
  CREATE TRIGGER thread_keys_removed AFTER DELETE ON threads WHEN old.keys IS NOT NULL BEGIN
    DELETE FROM thread_keys WHERE thread_id = old.thread_id AND key IN (SELECT value FROM json_each(old.keys));
  END;
  `,
  `
  ALTER TABLE runs ADD COLUMN cancel_reason TEXT;
  `,
  // `path`: the labels of the namespace, each followed by a dot, so that a prefix of labels is a range of texts.
  `
  CREATE TABLE items (
    app TEXT NOT NULL, path TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, ttl REAL, expires_at INTEGER,
    PRIMARY KEY (app, path, key)
  );
  CREATE INDEX items_by_updated ON items (app, updated_at, path, key);
  CREATE INDEX items_expired ON items (expires_at) WHERE expires_at IS NOT NULL;
  `,
  `
  ALTER TABLE runs RENAME COLUMN hb TO heartbeats;
  ALTER TABLE threads RENAME COLUMN head TO latest_checkpoint_id;
  ALTER TABLE threads RENAME COLUMN next_no TO next_position;
  ALTER TABLE states RENAME COLUMN head TO latest_checkpoint_id;
  UPDATE threads SET queue = replace(queue, '"no":', '"position":') WHERE queue <> '[]';
  UPDATE runs SET base = replace(base, '{"head":', '{"latest_checkpoint_id":') WHERE base IS NOT NULL;
  `,
  `
  CREATE TABLE assistant_versions (
    app TEXT NOT NULL, assistant_id TEXT NOT NULL, version INTEGER NOT NULL, graph_id TEXT NOT NULL,
    name TEXT NOT NULL, description TEXT, config TEXT NOT NULL, context TEXT NOT NULL, metadata TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (app, assistant_id, version)
  );
  INSERT INTO assistant_versions
    SELECT app, assistant_id, version, graph_id, name, description, config, context, metadata, created_at
    FROM assistants;
  CREATE INDEX assistants_by_created ON assistants (app, created_at, assistant_id);
  CREATE INDEX assistants_by_updated ON assistants (app, updated_at, assistant_id);
  CREATE INDEX assistants_by_name ON assistants (app, name, assistant_id);
  CREATE INDEX assistants_by_graph ON assistants (app, graph_id, assistant_id);
  `,
  `
  DROP INDEX threads_busy;
  CREATE INDEX threads_busy ON threads (updated_at, thread_id) WHERE status = 'busy';
  CREATE INDEX runs_running ON runs (run_id) WHERE status = 'running';
  `,
  `
  CREATE TABLE health (id INTEGER PRIMARY KEY, checked_at INTEGER NOT NULL);
  `,
  // The last column: reading the value of an item does not read its vectors.
  `
  ALTER TABLE items ADD COLUMN vectors BLOB;
  CREATE INDEX items_indexed ON items (app, updated_at, path, key) WHERE vectors IS NOT NULL;
  `,
  // Searches by metadata, as `thread_keys`: rows of an earlier version match every filter.
  `
  ALTER TABLE assistants ADD COLUMN keys TEXT;
  CREATE TABLE assistant_keys (
    app TEXT NOT NULL, key TEXT NOT NULL, assistant_id TEXT NOT NULL, PRIMARY KEY (app, key, assistant_id)
  ) WITHOUT ROWID;
  UPDATE assistants SET keys = '["*"]' WHERE metadata <> '{}';
  INSERT INTO assistant_keys SELECT app, '*', assistant_id FROM assistants WHERE keys IS NOT NULL;
  CREATE TRIGGER assistant_keys_made AFTER INSERT ON assistants WHEN new.keys IS NOT NULL BEGIN
    INSERT OR IGNORE INTO assistant_keys SELECT new.app, value, new.assistant_id FROM json_each(new.keys);
  END;
  CREATE TRIGGER assistant_keys_changed AFTER UPDATE OF keys ON assistants WHEN old.keys IS NOT new.keys BEGIN
    DELETE FROM assistant_keys WHERE app = old.app AND assistant_id = old.assistant_id
      AND key IN (SELECT value FROM json_each(old.keys));
    INSERT OR IGNORE INTO assistant_keys SELECT new.app, value, new.assistant_id FROM json_each(new.keys);
  END;
  CREATE TRIGGER assistant_keys_removed AFTER DELETE ON assistants WHEN old.keys IS NOT NULL BEGIN
    DELETE FROM assistant_keys WHERE app = old.app AND assistant_id = old.assistant_id
      AND key IN (SELECT value FROM json_each(old.keys));
  END;
  ALTER TABLE items ADD COLUMN keys TEXT;
  CREATE TABLE item_keys (
    app TEXT NOT NULL, key TEXT NOT NULL, path TEXT NOT NULL, item TEXT NOT NULL, PRIMARY KEY (app, key, path, item)
  ) WITHOUT ROWID;
  UPDATE items SET keys = '["*"]';
  INSERT INTO item_keys SELECT app, '*', path, key FROM items;
  CREATE TRIGGER item_keys_made AFTER INSERT ON items WHEN new.keys IS NOT NULL BEGIN
    INSERT OR IGNORE INTO item_keys SELECT new.app, value, new.path, new.key FROM json_each(new.keys);
  END;
  CREATE TRIGGER item_keys_changed AFTER UPDATE OF keys ON items WHEN old.keys IS NOT new.keys BEGIN
    DELETE FROM item_keys WHERE app = old.app AND path = old.path AND item = old.key
      AND key IN (SELECT value FROM json_each(old.keys));
    INSERT OR IGNORE INTO item_keys SELECT new.app, value, new.path, new.key FROM json_each(new.keys);
  END;
  CREATE TRIGGER item_keys_removed AFTER DELETE ON items WHEN old.keys IS NOT NULL BEGIN
    DELETE FROM item_keys WHERE app = old.app AND path = old.path AND item = old.key
      AND key IN (SELECT value FROM json_each(old.keys));
  END;
  `,
  `
  ALTER TABLE payloads ADD COLUMN auth_user TEXT;
  `,
  `
  ALTER TABLE runs ADD COLUMN key_id TEXT;
  CREATE INDEX runs_of_key ON runs (key_id)
    WHERE key_id IS NOT NULL AND status IN ('accepting', 'pending', 'running');
  `,
  `
  ALTER TABLE payloads ADD COLUMN traceparent TEXT;
  `,
  `
  ALTER TABLE writes ADD COLUMN path TEXT;
  `,
  // A graph with few assistants among many is found in each order.
  `
  CREATE INDEX assistants_of_graph_by_created ON assistants (app, graph_id, created_at, assistant_id);
  CREATE INDEX assistants_of_graph_by_updated ON assistants (app, graph_id, updated_at, assistant_id);
  CREATE INDEX assistants_of_graph_by_name ON assistants (app, graph_id, name, assistant_id);
  `,
  // Keys of items are in the order of their values: those of an earlier version match every filter.
  `
  UPDATE items SET keys = '["*"]' WHERE keys IS NOT NULL;
  `,
  // The last column, and none of a summary: the other reads of a run do not read it.
  `
  ALTER TABLE runs ADD COLUMN webhook_log TEXT;
  `,
  `
  ALTER TABLE threads ADD COLUMN left_by TEXT;
  `,
  // Searches over all runs: each condition has the runs that meet it in the order of time.
  `
  CREATE INDEX runs_by_created ON runs (app, created_at, run_id);
  CREATE INDEX runs_by_status ON runs (app, status, created_at, run_id);
  CREATE INDEX runs_by_graph ON runs (app, graph_id, created_at, run_id);
  CREATE INDEX runs_by_assistant ON runs (app, assistant_id, created_at, run_id);
  CREATE INDEX runs_by_key ON runs (app, key_id, created_at, run_id) WHERE key_id IS NOT NULL;
  CREATE INDEX runs_temporary ON runs (app, created_at, run_id) WHERE temporary = 1;
  `,
  // Runs that wait for their time may be many, and are in an index of their own.
  `
  DROP INDEX runs_unsettled;
  CREATE INDEX runs_due_now ON runs (created_at, run_id)
    WHERE status IN ('accepting', 'running') OR status = 'pending' AND due_at = 0;
  `,
  // The next run of a pool is chosen among tenants.
  `
  ALTER TABLE runs ADD COLUMN tenant TEXT;
  ALTER TABLE runs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE runs ADD COLUMN ready_at INTEGER;
  CREATE INDEX runs_ready ON runs (app, pool, tenant, priority, created_at, run_id)
    WHERE status = 'pending' AND ready_at IS NOT NULL;
  `,
]

export const SCHEMA_VERSION = VERSIONS.length

/** Brings the database to the newest version; throws one sentence when a newer Weft has written it. */
export function migrate(db: Database): void {
  const [found] = db.prepare('PRAGMA user_version').raw().get([]) as [number]
  if (found > VERSIONS.length)
    throw new Error(
      `The database has schema version ${found}, this Weft knows up to ${VERSIONS.length}: start a newer Weft, or restore the backup from before its upgrade`,
    )
  for (let version = found; version < VERSIONS.length; version++) {
    db.exec('BEGIN IMMEDIATE')
    try {
      db.exec(VERSIONS[version]!)
      db.exec(`PRAGMA user_version = ${version + 1}`)
      db.exec('COMMIT')
    } catch (error) {
      db.exec('ROLLBACK')
      throw error
    }
  }
}
