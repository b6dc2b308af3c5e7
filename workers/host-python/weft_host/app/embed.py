"""
`store.index.embed` of langgraph.json: texts to vectors. It names an export of the application, which is a function of
texts (also async) or an Embeddings of LangChain, or a model of a provider, for which the application has installed
`langchain` and the package of the provider.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Sequence
from typing import Any, cast

from .auth import call
from .description import Export

Embed = Callable[[list[str]], Any]


class Embedder:
    def __init__(self, documents: Embed, query: Embed) -> None:
        self.of_kind = {"documents": documents, "query": query}

    @staticmethod
    def of(export: Export) -> Embedder:
        """Raises ValueError with one sentence."""
        exported = of_provider(export.text) if export.name is None else export.load("store.index.embed")
        if hasattr(exported, "aembed_documents") and hasattr(exported, "aembed_query"):

            async def queries(texts: list[str]) -> Any:
                return await asyncio.gather(*(exported.aembed_query(text) for text in texts))

            return Embedder(exported.aembed_documents, queries)
        if callable(exported):
            return Embedder(exported, exported)
        raise ValueError(
            f"store.index.embed: {export.text} is no embedder; "
            "expected a function of texts, or an Embeddings of LangChain."
        )

    async def embed(self, kind: str, texts: list[str]) -> bytes:
        """The vectors one after the other as little-endian 32-bit floats, behind the length of each: u32 per text."""
        vectors = await call(self.of_kind[kind], texts)
        rows = [array("f", cast("Sequence[float]", vector)) for vector in cast("Sequence[Any]", vectors)]
        return array("I", [len(row) for row in rows]).tobytes() + b"".join(row.tobytes() for row in rows)


def of_provider(text: str) -> Any:
    try:
        from langchain.embeddings import init_embeddings  # pyright: ignore
    except ImportError:
        raise ValueError(
            f"store.index.embed: {text} needs the package langchain and the one of the provider: "
            "add them to the dependencies of the application."
        ) from None
    try:
        return cast(Any, init_embeddings)(text)
    except (ImportError, ValueError) as error:
        raise ValueError(f"store.index.embed: {text}: {error}") from None
