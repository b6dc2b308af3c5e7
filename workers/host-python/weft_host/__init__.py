"""The graph host for Python. docs/pipe.md is its contract; workers/host is the one for JavaScript."""
