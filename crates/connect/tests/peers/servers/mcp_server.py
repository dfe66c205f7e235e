"""An MCP server of the official Python SDK: python mcp_server.py PORT [TRANSPORT]"""

import sys
from typing import TypedDict

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("peer")


class Sum(TypedDict):
    sum: int


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def add(a: int, b: int) -> Sum:
    """Adds two numbers."""
    return {"sum": a + b}


@server.tool()
def fail(why: str) -> str:
    """Fails."""
    raise ValueError(why)


@server.tool()
def big(kib: int) -> str:
    """Returns a long text."""
    return "x" * 1024 * kib


transport = sys.argv[2] if len(sys.argv) > 2 else "streamable-http"
server.run(transport=transport, host="127.0.0.1", port=int(sys.argv[1]))
