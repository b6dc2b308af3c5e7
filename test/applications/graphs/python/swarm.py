"""The quick start of the package."""

from langchain.agents import create_agent
from langgraph_swarm import create_handoff_tool, create_swarm


def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


alice = create_agent("openai:gpt-4o", tools=[add, create_handoff_tool(agent_name="Bob")], name="Alice")
bob = create_agent("openai:gpt-4o", tools=[create_handoff_tool(agent_name="Alice")], name="Bob")

graph = create_swarm([alice, bob], default_active_agent="Alice").compile()
