"""A FastMCP server behind its own in-memory OAuth provider: python fastmcp_oauth.py PORT"""

import sys

from fastmcp import FastMCP
from fastmcp.server.auth.auth import ClientRegistrationOptions, RevocationOptions
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from fastmcp.server.dependencies import get_access_token

port = int(sys.argv[1])
auth = InMemoryOAuthProvider(
    base_url=f"http://127.0.0.1:{port}",
    client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["read"]),
    revocation_options=RevocationOptions(enabled=True),
    required_scopes=["read"],
)
server = FastMCP("peer", auth=auth)


@server.tool(annotations={"readOnlyHint": True})
def who() -> dict:
    """Says whose token came in."""
    token = get_access_token()
    return {"token": token.token, "scopes": token.scopes}


@server.tool
def forget() -> str:
    """Forgets every access token, as if they had expired."""
    auth.access_tokens.clear()
    return "forgotten"


@server.tool
def fail() -> str:
    """Fails."""
    raise ValueError("it went wrong")


@server.tool
def big(kib: int) -> str:
    """Returns a long text."""
    return "x" * 1024 * kib


server.run(transport="http", host="127.0.0.1", port=port, show_banner=False)
