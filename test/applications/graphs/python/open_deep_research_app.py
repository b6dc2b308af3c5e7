"""The workflow of the package."""

from open_deep_research.deep_researcher import deep_researcher as graph
