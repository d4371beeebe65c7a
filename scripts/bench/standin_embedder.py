"""An OpenAI-compatible `/v1/embeddings` that costs next to nothing: for measuring everything but the model."""

import base64
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import texts


class Embeddings(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer({"object": "list", "data": [{"id": "standin", "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        some = [body["input"]] if isinstance(body["input"], str) else body["input"]
        packed = body.get("encoding_format") == "base64"
        data = [
            {
                "object": "embedding",
                "index": number,
                "embedding": base64.b64encode(vector.tobytes()).decode() if packed else vector.tolist(),
            }
            for number, vector in enumerate(texts.vectors(some))
        ]
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        self._answer({"object": "list", "model": "standin", "data": data, "usage": usage})

    def log_message(self, *_: Any) -> None:
        """Ten thousand lines would say nothing."""

    def _answer(self, value: object) -> None:
        content = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    """Sixteen clients connect at once; the default of five would turn some away."""


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Embeddings)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
