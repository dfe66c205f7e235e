"""An MCP server for a small warehouse, with the standard library alone.

Without an argument it speaks MCP on standard input and output. With a port it speaks MCP over HTTP there, and asks for
the bearer token in WAREHOUSE_TOKEN.
"""

import http.server
import json
import os
import sys

STOCK = {"espresso": 140, "filter": 12, "decaf": 0}
TOOL = {
    "name": "stock",
    "description": "Returns how many bags of a coffee are in stock.",
    "inputSchema": {
        "type": "object",
        "properties": {"product": {"type": "string", "enum": sorted(STOCK)}},
        "required": ["product"],
    },
    # A call that only reads may be repeated after a crash.
    "annotations": {"readOnlyHint": True},
}


def call(params):
    product = params["arguments"].get("product")
    if product not in STOCK:
        return {"content": [{"type": "text", "text": f"no product {product!r}"}], "isError": True}
    return {"content": [{"type": "text", "text": str(STOCK[product])}]}


def initialize(params):
    return {
        "protocolVersion": params["protocolVersion"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "warehouse", "version": "1"},
    }


METHODS = {
    "initialize": initialize,
    "ping": lambda params: {},
    "tools/list": lambda params: {"tools": [TOOL]},
    "tools/call": call,
}


def answer(message):
    """Answers a request. A notification gets no answer."""
    if "id" not in message:
        return None
    head = {"jsonrpc": "2.0", "id": message["id"]}
    method = METHODS.get(message.get("method"))
    if method is None:
        return {**head, "error": {"code": -32601, "message": "no such method"}}
    return {**head, "result": method(message.get("params", {}))}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != f"Bearer {os.environ['WAREHOUSE_TOKEN']}":
            return self.send(401, b"")
        found = answer(message)
        return self.send(202 if found is None else 200, b"" if found is None else json.dumps(found).encode())

    def do_GET(self):
        self.send(405, b"")

    def send(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


if len(sys.argv) > 1:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
for line in sys.stdin:
    found = answer(json.loads(line))
    if found is not None:
        print(json.dumps(found), flush=True)
