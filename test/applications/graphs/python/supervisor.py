"""The quick start of the package."""

from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent
from langgraph_supervisor import create_supervisor

model = ChatOpenAI(model="gpt-4o")


def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


math_agent = create_react_agent(model=model, tools=[add], name="math_expert", prompt="You are a math expert.")
writer = create_react_agent(model=model, tools=[], name="writer", prompt="You write.")

graph = create_supervisor([math_agent, writer], model=model, prompt="You supervise.").compile()
