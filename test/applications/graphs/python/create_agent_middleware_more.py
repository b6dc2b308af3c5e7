"""The middleware of langchain that decides, emulates and handles errors, with a decision model that decides by rule."""

from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import (
    AutoModeMiddleware,
    LLMToolEmulator,
    ModelChoice,
    ModelRefusalMiddleware,
    ModelRouterMiddleware,
    ProviderToolSearchMiddleware,
    ToolErrorMiddleware,
)
from langchain.chat_models import init_chat_model
from langchain_core.decisions import BaseDecisionModel, ClassifierResponse

model = init_chat_model("anthropic:claude-sonnet-4-5")


class Rules(BaseDecisionModel):
    """Takes the first choice, and sees no risk."""

    model: str = "rules"

    @property
    def _provider(self) -> str:
        return "rules"

    def _classify(self, state: Any, questions: Any) -> ClassifierResponse:
        return ClassifierResponse.model_validate(
            {"model": self.model, "answers": {name: answer(question) for name, question in questions.items()}}
        )


def answer(question: Any) -> dict[str, Any]:
    if question.type == "noul":
        return {"type": "noul", "noul": 0.0}
    first = next(iter(question.criteria))
    return {"type": "choice", "choice": first, "probabilities": {first: 1.0}, "confidence": 1.0}


def fails(why: str) -> str:
    """Fails."""
    raise ValueError(why)


def weather(city: str) -> str:
    """Says how the weather is."""
    raise NotImplementedError(city)


def rare(text: str) -> str:
    """Is found by a search."""
    return text


graph = create_agent(
    model,
    tools=[fails, weather, rare],
    middleware=[
        ModelRouterMiddleware(
            choices={"usual": ModelChoice(model=model, criteria="everything")},
            instructions="Which model answers?",
            classifier=Rules(),
        ),
        ModelRefusalMiddleware(),
        ProviderToolSearchMiddleware(searchable_tools=["rare"]),
        ToolErrorMiddleware(lambda error, request: f"failed: {error}"),
        AutoModeMiddleware(tools=["fails"], classifier=Rules()),
        LLMToolEmulator(tools=["weather"], model=model),
    ],
)
