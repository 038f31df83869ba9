"""An S3 server for tests, as a process of its own, in memory and gone with its `with` block; and what S3 says, as XML.

moto 5.2.5 is the only server found that pip or apt brings alone and that knows conditional writes (If-None-Match: *,
If-Match). Half of a request's 2 to 4 ms goes to finding which of AWS's services is meant, which is left out here.

moto compares a condition and writes in two steps, between which another of its threads may write: of 150 objects that
16 clients made at once, one had two makers once threads changed every 10 µs, and some writes ended in 500. S3 does not
do that, so requests are worked on one at a time here. moto checks no signature, and it passes over If-Match where a
multipart upload is completed.
"""

import io
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"
REGION = "us-east-1"  # the one where S3 makes a bucket without being told where
CODES = {
    403: "AccessDenied",
    409: "ConditionalRequestConflict",
    429: "TooManyRequests",
    500: "InternalError",
    501: "NotImplemented",
    503: "SlowDown",
}


@dataclass(frozen=True)
class ObjectServer:
    """A server that answers, with its one bucket."""

    port: int
    bucket: str

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What a client process is to have in its environment."""
        return {
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "not-a-secret",
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": self.url,
        }


@contextmanager
def s3_server(bucket: str = "vitalfew-tests") -> Iterator[ObjectServer]:
    """A server with an empty bucket (of 3 characters or more); RuntimeError, with what was said, if none starts."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.object_store"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
        )
        try:
            server = ObjectServer(_port_of(process, said), bucket)
            _make(server)
            yield server
        finally:
            process.kill()
            process.communicate()


def _port_of(process: subprocess.Popen[bytes], said: Any) -> int:
    """The port, which the process writes once it listens there."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.strip().isdigit():
        process.wait()
        said.seek(0)
        raise RuntimeError(f"No S3 server started: {said.read().decode(errors='replace').strip()}")
    return int(line)


def _make(server: ObjectServer) -> None:
    with closing(HTTPConnection(HOST, server.port)) as connection:
        connection.request("PUT", f"/{server.bucket}")
        answer = connection.getresponse()
        if answer.status != 200:
            raise RuntimeError(f"No bucket {server.bucket!r} was made: {answer.read().decode()}")


@dataclass(frozen=True)
class Asked:
    """A request as it came; `headers` have small letters and no Host."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        return "LIST" if self.method == "GET" and "list-type" in self.query else self.method

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.target).query, True).items()}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    sent: float = 1.0  # how much of the body arrives before the connection is closed; nothing at all if 0


def refusal(status: int, code: str | None = None) -> Answer:
    """An error as S3 writes it."""
    code = code or CODES[status]
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{code}</Message></Error>'
    return Answer(status, {"content-type": "application/xml"}, body.encode())


@dataclass(frozen=True)
class Listed:
    key: str
    rest: str  # of its element in a listing: when it was written, its size, its tag


def everything_in(server: ObjectServer) -> list[Listed]:
    """All objects of the bucket, sorted by their keys' bytes as S3 sorts them."""
    found: list[Listed] = []
    after = ""
    with closing(HTTPConnection(HOST, server.port)) as connection:
        while True:
            connection.request("GET", f"/{server.bucket}?list-type=2&start-after={quote(after, safe='')}")
            page = ElementTree.fromstring(connection.getresponse().read())
            for entry in page.iterfind("{*}Contents"):
                fields = {field.tag.rpartition("}")[2]: field.text or "" for field in entry}
                after = fields.pop("Key")
                found.append(Listed(after, "".join(f"<{n}>{escape(v)}</{n}>" for n, v in fields.items() if v.strip())))
            if page.findtext("{*}IsTruncated") != "true":
                return sorted(found, key=lambda entry: entry.key.encode())


class OneAtATime:
    """A WSGI application whose requests are worked on one after another, each once its body is here."""

    def __init__(self, application: Any) -> None:
        self.application = application
        self.turn = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        size = -1 if environ.get("wsgi.input_terminated") else int(environ.get("CONTENT_LENGTH") or 0)
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(size))
        with self.turn:
            parts = self.application(environ, start_response)
            try:
                return [b"".join(parts)]
            finally:
                if hasattr(parts, "close"):
                    parts.close()


def main() -> None:
    """Serves until standard input ends, as it does when the process that started this one ends, however it ends."""
    os.environ["MOTO_S3_DEFAULT_KEY_BUFFER_SIZE"] = str(2**40)  # bytes of an object before it goes to a disk
    from moto.moto_server.werkzeug_app import create_backend_app

    serve(OneAtATime(create_backend_app("s3")))


def serve(application: Any) -> None:
    """Print the port once it listens, and serve until standard input ends."""
    from moto.moto_server.werkzeug_app import MotoRequestHandler
    from werkzeug.serving import make_server

    class Unlogged(MotoRequestHandler):
        def log(self, *_: Any) -> None:
            pass

    server = make_server(HOST, 0, application, threaded=True, request_handler=Unlogged)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.port, flush=True)
    os.dup2(2, 1)  # nobody reads further what moto prints
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
