"""A server that speaks OpenAI's chat completions, for benchmarks/faults.py: it counts what it is paid for."""

import json
import sys
import threading
import time
from collections import Counter
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DELAY, TENTH = 0.02, 10
"""Seconds that an answer takes, and which request fails."""


class Server(ThreadingHTTPServer):
    """Speaks OpenAI's chat completions. `paid`: how often each prompt was answered; `failing`: every tenth gets 500."""

    def __init__(self) -> None:
        self.paid: Counter[str] = Counter()
        self.failing, self.asked, self.lock = False, 0, threading.Lock()
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # which clients that are killed leave behind
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def answer(self, prompt: str) -> tuple[int, dict[str, Any]]:
        time.sleep(DELAY)
        with self.lock:
            self.asked += 1
            if self.failing and self.asked % TENTH == 0:
                return 500, {"error": {"message": "internal error"}}
            self.paid[prompt] += 1
        message = {"role": "assistant", "content": f"Answer {blake2b(prompt.encode(), digest_size=4).hexdigest()}"}
        words = len(prompt.split())
        return 200, {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "test",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": words, "completion_tokens": 2, "total_tokens": words + 2},
        }


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.give(200, {"object": "list", "data": []})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.give(*self.server.answer(body["messages"][-1]["content"]))

    def give(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except ConnectionError:  # the client was killed; what it asked for is paid
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""
