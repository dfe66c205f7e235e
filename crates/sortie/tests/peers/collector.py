"""A collector of traces: takes OTLP over HTTP, decodes it with OpenTelemetry's own description of the protocol, and prints
a JSON line for its port, for each request, and for each span."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status


def plain(value):
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(item) for item in value.array_value.values]
    return getattr(value, kind)


def named(attributes):
    return {attribute.key: plain(attribute.value) for attribute in attributes}


def shown(span, resource):
    return {
        "name": span.name,
        "trace_id": span.trace_id.hex(),
        "span_id": span.span_id.hex(),
        "parent_span_id": span.parent_span_id.hex(),
        "trace_state": span.trace_state,
        "kind": Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
        "status": Status.StatusCode.Name(span.status.code).removeprefix("STATUS_CODE_").lower(),
        "start": span.start_time_unix_nano,
        "end": span.end_time_unix_nano,
        "events": [event.name for event in span.events],
        "attributes": named(span.attributes),
        "resource": named(resource.attributes),
    }


def tell(**line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


class Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        tell(path=self.path, headers={k.lower(): v for k, v in self.headers.items()}, body=body.decode("latin-1"))
        request = ExportTraceServiceRequest.FromString(body)
        for of_resource in request.resource_spans:
            for of_scope in of_resource.scope_spans:
                for span in of_scope.spans:
                    tell(span=shown(span, of_resource.resource))
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
tell(port=server.server_address[1])
server.serve_forever()
