"""The Responses API, and an answer with a schema."""

from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class City(BaseModel):
    """A city."""

    name: str
    people: int


graph = create_agent(
    ChatOpenAI(model="gpt-5-mini", use_responses_api=True),
    tools=[],
    response_format=ToolStrategy(City),
)
