"""Receives one signed callback, prints the run and ends. Needs the standard library alone. Prints its port first."""

import hashlib
import hmac
import http.server
import json
import os
import time

SECRET = os.environ["CALLBACK_SECRET"].encode()


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        timestamp = self.headers["X-Service-Timestamp"]
        expected = "sha256=" + hmac.new(SECRET, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
        genuine = hmac.compare_digest(expected, self.headers["X-Service-Signature"])
        recent = abs(time.time() - int(timestamp)) < 300
        self.server.is_done = genuine and recent
        self.send_response(204 if self.server.is_done else 401)
        self.end_headers()
        if self.server.is_done:
            run = json.loads(body)
            print(run["id"], run["status"], flush=True)
            print(run.get("output") or run.get("error"), flush=True)

    def log_message(self, *args):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
print(server.server_port, flush=True)
server.is_done = False
while not server.is_done:
    server.handle_request()
