"""The OAuth of an MCP client: python oauth_client.py ENGINE. It knows the address of the MCP server alone.

It prints a JSON line for each address that a browser is to open, for the tokens and the run, and when it is refused."""

import asyncio
import json
import sys
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

engine = sys.argv[1]


def say(**line):
    print(json.dumps(line), flush=True)


class Memory:
    """Keeps the tokens and the registration while the program runs."""

    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class Refused(Exception):
    """The access has ended: the client asks the person again."""


async def main():
    answered = asyncio.get_running_loop().create_future()

    async def take(reader, writer):
        request = await reader.readline()
        while (await reader.readline()).strip():
            pass
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<h1>Connected</h1>")
        await writer.drain()
        writer.close()
        target = urlsplit(request.split()[1].decode())
        if target.path == "/callback" and not answered.done():
            answered.set_result(parse_qs(target.query))

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def ask(url):
        if answered.done():
            raise Refused
        say(open=url)

    async def code():
        query = await answered
        return AuthorizationCodeResult(code=query["code"][0], state=query["state"][0], iss=query["iss"][0])

    memory = Memory()
    metadata = OAuthClientMetadata(client_name="Plum Desk", redirect_uris=[f"http://127.0.0.1:{port}/callback"])
    provider = OAuthClientProvider(f"{engine}/mcp", metadata, memory, ask, code)
    async with httpx2.AsyncClient(auth=provider, base_url=engine, timeout=60) as client:
        async with Client(streamable_http_client(f"{engine}/mcp", http_client=client)) as server:
            tools = [tool.name for tool in (await server.list_tools()).tools]
        me = (await client.get("/v1/me")).raise_for_status().json()
        first = memory.tokens
        # The client takes the access token for expired, and refreshes.
        provider.context.token_expiry_time = 1
        created = (await client.post("/v1/runs", json={"prompt": "hello from afar"})).raise_for_status().json()
        run = (await client.get(f"/v1/runs/{created['id']}?wait=30")).raise_for_status().json()
        say(
            me=me,
            tools=tools,
            run=run,
            scope=memory.tokens.scope,
            refreshed=first.access_token != memory.tokens.access_token
            and first.refresh_token != memory.tokens.refresh_token,
        )
        try:
            while True:
                (await client.get("/v1/me")).raise_for_status()
                await asyncio.sleep(0.1)
        except Refused:
            pass
    form = {"grant_type": "refresh_token", "refresh_token": memory.tokens.refresh_token, "client_id": memory.client.client_id}
    if memory.client.client_secret:
        form["client_secret"] = memory.client.client_secret
    async with httpx2.AsyncClient() as client:
        refreshed = await client.post(str(provider.context.oauth_metadata.token_endpoint), data=form)
    say(refused=True, refresh=refreshed.json())


asyncio.run(main())
