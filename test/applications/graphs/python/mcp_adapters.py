"""Tools of an MCP server, which is a child process of the graph's."""

import sys
from pathlib import Path

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient

client = MultiServerMCPClient(
    {
        "numbers": {
            "transport": "stdio",
            "command": sys.executable,
            "args": [str(Path(__file__).parent / "mcp_tools.py")],
        }
    }
)


async def graph():
    return create_agent("openai:gpt-4o", tools=await client.get_tools())
