"""An API of a shop that asks for a bearer token, with the standard library alone. Prints its port."""

import http.server
import json
import os
import urllib.parse

ORDERS = [
    {"id": 1, "customer": "Ada", "status": "open", "total": 41.5},
    {"id": 2, "customer": "Grace", "status": "shipped", "total": 18.0},
    {"id": 3, "customer": "Edsger", "status": "open", "total": 260.0},
]


class Shop(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        if self.headers["Authorization"] != f"Bearer {os.environ['SHOP_TOKEN']}":
            self.send(401, {"error": "no valid token"})
        elif url.path == "/v1/orders":
            wanted = urllib.parse.parse_qs(url.query).get("status")
            self.send(200, [order for order in ORDERS if not wanted or order["status"] in wanted])
        else:
            self.send(404, {"error": "only /v1/orders is here"})

    def send(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shop)
print(server.server_port, flush=True)
server.serve_forever()
