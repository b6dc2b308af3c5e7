"""An agent that finds its tools in the store."""

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph_bigtool import create_agent


@tool
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


def find_tools(query: str) -> list[str]:
    """Finds tools by words."""
    return ["add"]


graph = create_agent(ChatOpenAI(model="gpt-4o"), {"add": add}, retrieve_tools_function=find_tools).compile()
