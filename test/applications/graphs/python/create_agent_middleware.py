"""Every middleware of langchain that needs no other service."""

from dataclasses import dataclass
from typing import Any

from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    FilesystemFileSearchMiddleware,
    HumanInTheLoopMiddleware,
    LLMToolSelectorMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    ShellToolMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
    ToolRetryMiddleware,
    before_model,
    dynamic_prompt,
)
from langchain.chat_models import init_chat_model

model = init_chat_model("anthropic:claude-sonnet-4-5")


@dataclass
class Context:
    style: str = "plain"


class Counted(AgentState):
    calls: int


def send_mail(to: str) -> str:
    """Sends a mail."""
    return f"sent to {to}"


@before_model(state_schema=Counted)
def counted(state: Any, runtime: Any) -> dict[str, Any]:
    return {"calls": state.get("calls", 0) + 1}


@dynamic_prompt
def styled(request: Any) -> str:
    return f"Answer in the style {request.runtime.context.style}."


graph = create_agent(
    model,
    tools=[send_mail],
    context_schema=Context,
    middleware=[
        counted,
        styled,
        SummarizationMiddleware(model=model, trigger=("messages", 4), keep=("messages", 2)),
        TodoListMiddleware(),
        HumanInTheLoopMiddleware(interrupt_on={"send_mail": True}),
        PIIMiddleware("email", strategy="redact"),
        ModelCallLimitMiddleware(run_limit=20),
        ToolCallLimitMiddleware(run_limit=20),
        ModelFallbackMiddleware(model),
        ModelRetryMiddleware(max_retries=1),
        ToolRetryMiddleware(max_retries=1),
        LLMToolSelectorMiddleware(model=model, always_include=["send_mail", "write_todos", "shell"]),
        ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=1000)]),
        FilesystemFileSearchMiddleware(root_path="."),
        ShellToolMiddleware(),
    ],
)
