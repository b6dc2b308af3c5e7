"""Prints the checkpoints of a thread as the library's own checkpointer reads them from a file, newest first."""

from __future__ import annotations

import json
import sys

from langgraph.checkpoint.sqlite import SqliteSaver

file, thread_id = sys.argv[1:]
with SqliteSaver.from_conn_string(file) as saver:
    found = saver.list({"configurable": {"thread_id": thread_id}})
    rows = [
        {
            "ns": each.config["configurable"]["checkpoint_ns"],
            "id": each.config["configurable"]["checkpoint_id"],
            "parent": each.parent_config and each.parent_config["configurable"]["checkpoint_id"],
            "values": each.checkpoint["channel_values"],
            "source": each.metadata["source"],
            "writes": [channel for _, channel, _ in each.pending_writes or ()],
        }
        for each in found
    ]
print(json.dumps(rows, default=str))
