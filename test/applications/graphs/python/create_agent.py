"""Human in the loop, as the documentation of langchain shows it."""

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware


def send_mail(to: str) -> str:
    """Sends a mail."""
    return f"sent to {to}"


graph = create_agent(
    "openai:gpt-4o-mini",
    tools=[send_mail],
    middleware=[HumanInTheLoopMiddleware(interrupt_on={"send_mail": True})],
)
