"""Databases of checkpointers, read for `weft import`."""
