"""The checkpointer of a run, in memory for runs without a thread, and the item store as graphs get it."""
