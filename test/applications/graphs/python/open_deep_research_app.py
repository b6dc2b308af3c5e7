"""The workflow of the package."""

from open_deep_research.graph import graph as graph
