"""A deep agent with a subagent, and a file tool that waits for approval."""

from deepagents import create_deep_agent
from langchain_anthropic import ChatAnthropic

graph = create_deep_agent(
    model=ChatAnthropic(model_name="claude-sonnet-4-5"),
    system_prompt="You are a researcher.",
    subagents=[{"name": "critic", "description": "Criticises a text.", "system_prompt": "You criticise."}],
    interrupt_on={"write_file": True},
)
