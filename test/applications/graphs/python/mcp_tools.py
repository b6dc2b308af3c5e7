"""A server of tools over standard input and output: the MCP adapters start it."""

from mcp.server.fastmcp import FastMCP

server = FastMCP("numbers")


@server.tool()
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


if __name__ == "__main__":
    server.run(transport="stdio")
