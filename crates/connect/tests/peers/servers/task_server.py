"""An MCP server with calls that run as tasks: python task_server.py PORT"""

import asyncio
import sys
from datetime import timedelta

from fastmcp import FastMCP
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

server = FastMCP("peer")
server.add_extension(TasksExtension())
quick = TaskConfig(mode="required", poll_interval=timedelta(milliseconds=200))

finished = []


@server.tool(task=quick)
async def slow(seconds: float) -> str:
    """Takes its time."""
    await asyncio.sleep(seconds)
    finished.append(seconds)
    return f"slept {seconds} s"


@server.tool(task=quick)
async def fail(why: str) -> str:
    """Fails."""
    raise ValueError(why)


@server.tool(task=quick)
async def ask() -> str | InputRequiredResult:
    """Asks a person."""
    schema = {"type": "object", "properties": {"colour": {"type": "string"}}}
    params = ElicitRequestFormParams(message="Which colour?", requested_schema=schema)
    return InputRequiredResult(input_requests={"colour": ElicitRequest(params=params)})


@server.tool()
def done() -> str:
    """Names the calls that have ended."""
    return " and ".join(map(str, finished))


server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
