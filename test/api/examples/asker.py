"""Beside the files of examples/delegate: a researcher that asks a person before it reads, and a lead with a context."""

from dataclasses import dataclass

from deepagents import AsyncSubAgent, create_deep_agent
from lead import script
from model import chat_model
from researcher import read_library
from researcher import script as researcher_script


@dataclass
class Context:
    tone: str = "plain"


# The script of the lead says "researcher".
ASKER = AsyncSubAgent(name="researcher", description="Asks a person before it reads.", graph_id="asker")

asker = create_deep_agent(
    model=chat_model(researcher_script),
    tools=[read_library],
    interrupt_on={"read_library": True},
    context_schema=Context,
)
lead = create_deep_agent(model=chat_model(script), subagents=[ASKER], context_schema=Context)
