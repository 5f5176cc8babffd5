"""A schema registry for scenarios: a real HTTP server on loopback with the three calls that clients make.

No registry can be installed here: Confluent's and Apicurio's are Java services that are not on Maven Central as runnable packages,
and Karapace needs a Kafka client that PyPI does not have for this Python. The client library and the wire format are the real ones.
"""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class SchemaRegistry:
    """Numbers the schemas that are registered, and returns them by number."""

    def __init__(self) -> None:
        self.schemas: list[str] = []
        self.status = 200
        """The HTTP status of every answer; another than 200 makes the registry fail."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def register(self, schema: str) -> int:
        """Return the number of a schema."""
        if schema not in self.schemas:
            self.schemas.append(schema)
        return self.schemas.index(schema) + 1

    def answer(self, path: str, body: dict[str, str]) -> dict[str, object] | None:
        """Return the answer to a call, or None if the registry does not have what it asks for."""
        if re.fullmatch(r"/subjects/[^/]+(/versions)?", path):
            number = self.register(body["schema"])
            return {"id": number, "version": number, "subject": path.split("/")[2], "schema": body["schema"]}
        numbers = re.findall(r"^/schemas/ids/(\d+)$", path)
        return {"schema": self.schemas[int(numbers[0]) - 1]} if numbers and int(numbers[0]) <= len(self.schemas) else None


def _handler_of(registry: SchemaRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
            answer = registry.answer(self.path.partition("?")[0], body)
            if registry.status != 200:
                self._send(registry.status, {"error_code": registry.status * 100, "message": "the registry is broken"})
            elif answer is None:
                self._send(404, {"error_code": 40403, "message": "Schema not found"})
            else:
                self._send(200, answer)

        do_POST = do_GET

        def _send(self, status: int, document: dict[str, object]) -> None:
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
