"""The MCP SDK for Python as a client of the MCP server: `mcp_client.py TARGET MODE`.

TARGET is the address of the server, or the program to start as `sortie mcp`. MODE is `auto` (the newest revision, without tasks),
`legacy` (the handshake of earlier revisions), `tasks` or `listen`. The key is in `SORTIE_API_KEY`. The engine has the workflow
`greet` with schemas for its input and its output, and `slow`, which takes seconds.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any, Literal

import anyio
import httpx2
from mcp.client import ClaimContext, Client, ClientExtension, ResultClaim
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, Request, RequestParams, Result
from pydantic import TypeAdapter

# Each request has a connection of its own, which a load balancer sends to another node.
NO_REUSE = httpx2.Limits(max_keepalive_connections=0)

TASKS = "io.modelcontextprotocol/tasks"


class CreatedTask(Result):
    """Answer to a call: a task."""

    result_type: Literal["task"]
    taskId: str
    status: str
    pollIntervalMs: int


class TaskParams(RequestParams):
    """Parameters of requests about a task."""

    taskId: str


class TaskRequest(Request[TaskParams, str]):
    """Request about a task."""

    # The header `Mcp-Name` has the ID (SEP-2663).
    name_param = "taskId"
    method: str
    params: TaskParams


class Tasks(ClientExtension):
    """The tasks extension: waits for the task of a call."""

    identifier = TASKS

    def __init__(self) -> None:
        self.created: list[str] = []
        self.polls = 0

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self.resolve)]

    async def resolve(self, task: CreatedTask, context: ClaimContext) -> CallToolResult:
        self.created.append(task.taskId)
        while True:
            self.polls += 1
            state = await task_request(context.session, "tasks/get", task.taskId)
            if state["status"] == "completed":
                return CallToolResult.model_validate(state["result"])
            assert state["status"] == "working", state
            await anyio.sleep(state["pollIntervalMs"] / 1000)


async def task_request(session: Any, method: str, task: str) -> dict[str, Any]:
    request = TaskRequest(method=method, params=TaskParams(taskId=task))
    return await session.send_request(request, TypeAdapter(dict[str, Any]))


async def check(client: Client, mode: str, tasks: Tasks) -> None:
    info = client.server_info
    assert info.name == "sortie", info
    listed = await client.list_tools()
    tools = {tool.name: tool for tool in listed.tools}
    for name in ["start_run", "get_run", "wait_run", "cancel_run", "list_runs", "read_artifact", "greet", "slow"]:
        assert name in tools, tools.keys()
    assert tools["greet"].input_schema["required"] == ["name"], tools["greet"]
    assert tools["greet"].description == "Greets somebody.", tools["greet"]

    # The client holds the structured content against the output schema of the tool.
    seen: list[str] = []

    async def progress(_progress: float, _total: float | None, message: str | None) -> None:
        seen.append(message or "")

    greeted = await client.call_tool("greet", {"name": "Ada"})
    assert not greeted.is_error, greeted
    content = greeted.structured_content
    assert content is not None and content["status"] == "succeeded", greeted
    assert content["output"] == {"greeting": "hello Ada"}, content
    run = content["run"]

    slow = await client.call_tool("slow", {}, progress_callback=progress)
    assert slow.structured_content["output"] == "slept\n", slow
    if mode == "tasks":
        assert len(tasks.created) == 2 and tasks.created[0] == run, tasks.created
        assert tasks.polls > 2, tasks.polls
    else:
        assert tasks.created == [], tasks.created
        assert seen and any("is running: " in message for message in seen), seen

    # What a model can mend is a result of the tool.
    refused = await client.call_tool("greet", {"name": 7})
    assert refused.is_error and "name" in refused.content[0].text, refused
    try:
        await client.call_tool("no_such_tool", {})
    except MCPError as error:
        assert "no such tool" in str(error), error
    else:
        raise AssertionError("an unknown tool was called")

    # Any run: start, wait, read its file, list, cancel.
    made = await client.call_tool(
        "start_run",
        {"prompt": "```sh\nmkdir -p outputs && printf 'north 12' > outputs/report.md\n```", "tags": ["by-mcp"]},
    )
    made_run = made.structured_content["run"]
    done = await client.call_tool("wait_run", {"run": made_run})
    assert done.structured_content["status"] == "succeeded", done
    assert [a["path"] for a in done.structured_content["artifacts"]] == ["report.md"], done
    links = [block for block in done.content if block.type == "resource_link"]
    assert [link.name for link in links] == ["report.md"], done
    read = await client.call_tool("read_artifact", {"run": made_run, "path": "report.md"})
    assert read.content[0].text == "north 12", read
    page = await client.call_tool("list_runs", {"tag": "by-mcp", "limit": 1})
    assert [run["run"] for run in page.structured_content["runs"]] == [made_run], page
    sleeper = await client.call_tool("start_run", {"prompt": "```wait 60000\n```"})
    cancelled = await client.call_tool("cancel_run", {"run": sleeper.structured_content["run"]})
    assert cancelled.structured_content["status"] == "cancelled", cancelled

    # Resources.
    resources = await client.list_resources()
    assert any(resource.uri.endswith(made_run) for resource in resources.resources), resources
    templates = await client.list_resource_templates()
    assert len(templates.resource_templates) == 2, templates
    contents = await client.read_resource(links[0].uri)
    assert contents.contents[0].text == "north 12", contents
    try:
        await client.read_resource("sortie://runs/none")
    except MCPError as error:
        assert "no such resource" in str(error), error
    else:
        raise AssertionError("an unknown resource was read")

    if mode == "tasks":
        task = await client.session.call_tool("slow", {}, allow_claimed=True)
        assert isinstance(task, CreatedTask), task
        await task_request(client.session, "tasks/cancel", task.taskId)
        state = await task_request(client.session, "tasks/get", task.taskId)
        assert state["status"] == "cancelled", state


async def listen(client: Client) -> None:
    """Prints the tools after the first change of their list."""
    async with client.listen(tools_list_changed=True) as subscription:
        print("listening", flush=True)
        async for _event in subscription:
            tools = await client.list_tools(cache_mode="bypass")
            print("changed", *sorted(tool.name for tool in tools.tools), flush=True)
            return


def server(target: str) -> Any:
    """The server at an address, or the one that a program is over standard input and output."""
    if "://" not in target:
        return StdioServerParameters(command=target, args=["mcp"], env=dict(os.environ))
    headers = {"Authorization": f"Bearer {os.environ['SORTIE_API_KEY']}"}
    return streamable_http_client(target, http_client=httpx2.AsyncClient(headers=headers, timeout=90, limits=NO_REUSE))


async def main() -> None:
    target, mode = sys.argv[1:]
    tasks = Tasks()
    async with Client(
        server(target),
        mode="legacy" if mode == "legacy" else "auto",
        extensions=[tasks] if mode == "tasks" else None,
    ) as client:
        if mode == "listen":
            await listen(client)
        else:
            await check(client, mode, tasks)
    print("ok", mode)


anyio.run(main)
