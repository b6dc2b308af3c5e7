"""The events of each stream mode, from what the library streams."""
