"""A real S3 server and shared folders for the tests, a bucket that fails when told to, and a person who edits objects
past the server.
"""

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import Request, urlopen

from recollect.domain.paths import is_markdown
from recollect.infra.folder_objects import FolderObjects
from recollect.infra.object_stores import objects_at
from recollect.infra.objects import Objects
from recollect.infra.vault_objects import ObjectVault

PLACES = ("s3", "folder")
"""Where objects may be."""
SCRIPT = Path(__file__).parent / "standins" / "s3_server.py"
BUCKET = "recollect"
_numbers = itertools.count()


class S3Server:
    """Ended by `stop`, and not before: tests share it, each with a prefix of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.make(BUCKET)

    def make(self, bucket: str) -> None:
        urlopen(Request(f"http://127.0.0.1:{self.port}/{bucket}", method="PUT", data=b"")).close()

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


RUNNING: list[S3Server] = []
FOLDERS: list[TemporaryDirectory[str]] = []


def server() -> S3Server:
    """The one of this process, started when it is first asked for."""
    if not RUNNING:
        RUNNING.append(S3Server())
        use(RUNNING[0].port)
    return RUNNING[0]


def stop() -> None:
    while RUNNING:
        RUNNING.pop().stop()
    while FOLDERS:
        FOLDERS.pop().cleanup()


def use(port: int) -> None:
    """From now on, S3 is there for whoever opens a bucket in this process or one that it starts."""
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "ann",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }


def new_url(place: str = "s3") -> str:
    """A prefix, or the address of a shared folder, that nobody has used."""
    if place == "folder":
        FOLDERS.extend([] if FOLDERS else [TemporaryDirectory(prefix="shared-")])
        return f"file://{FOLDERS[0].name}/{next(_numbers)}"
    server()
    return f"s3://{BUCKET}/homes/{next(_numbers)}"


class ObjectTexts(MutableMapping[str, str]):
    """The Markdown objects below a prefix by their paths, as a person finds, saves and deletes them."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def __getitem__(self, path: str) -> str:
        if (found := self._objects.get(path)) is None:
            raise KeyError(path)
        return found.content.decode()

    def __setitem__(self, path: str, text: str) -> None:
        self._objects.replace(path, text.encode())

    def __delitem__(self, path: str) -> None:
        if path not in self:
            raise KeyError(path)
        self._objects.delete([path])

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(each.path for each in self._objects.list() if is_markdown(each.path)))

    def __len__(self) -> int:
        return len(list(iter(self)))


def go_back(files: ObjectTexts, old: Mapping[str, str]) -> None:
    """As when a person puts back an old copy of the vault."""
    for path in [path for path in files if path not in old]:
        del files[path]
    files.update(old)


async def nobody() -> str:
    return "home-of-the-tests"


class PersonsBucket(ObjectVault):
    """A vault in S3 or a shared folder with a person at it, who can take it away and bring it back, which a listing sees."""

    see_all = ObjectVault.stamps.__wrapped__  # type: ignore[attr-defined]
    claim_again = ObjectVault._claimed.__wrapped__  # type: ignore[attr-defined]

    def __init__(self, url: str) -> None:
        super().__init__(objects_at(url), nobody)
        self.files = ObjectTexts(self.objects)
        self._taken: dict[str, bytes] = {}

    def take_away(self) -> None:
        paths = [each.path for each in self.objects.list()]
        self._taken = {path: found.content for path in paths if (found := self.objects.get(path)) is not None}
        self.objects.delete(paths)
        self.see_all()

    def bring_back(self) -> None:
        for path, content in self._taken.items():
            self.objects.replace(path, content)
        self.claim_again()

    def age(self) -> None:
        """In a folder no file was written just now: what was, is read again in any case."""
        if isinstance(self.objects, FolderObjects):
            root = Path(self.objects.url.removeprefix("file://"))
            for path in self.files:
                os.utime(root / path, (1_000_000_000, 1_000_000_000))


async def new_bucket(place: str = "s3") -> PersonsBucket:
    vault = PersonsBucket(new_url(place))
    await vault.open(expected=False)
    return vault


Fault = Callable[[str, str], int | None]
"""Of a method and a path, the status that is answered in place of the server, if any."""


class FaultyS3:
    """Stands before the server, and answers some requests itself. With 0 the connection breaks after the server did it."""

    def __init__(self, fault: Fault = lambda method, path: None, *, ignores: Collection[str] = ()) -> None:
        """What the request says in headers that it `ignores` doesn't reach the server."""
        upstream = server().port
        self.fault = fault
        self.faults = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status = outer.fault(self.command, self.path)
                if status:
                    outer.faults += 1
                    self.send_response(status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                there = HTTPConnection("127.0.0.1", upstream)
                sent = {name: value for name, value in self.headers.items() if name.lower() not in ignores}
                there.request(self.command, self.path, body, sent)
                answer = there.getresponse()
                content = answer.read()
                there.close()
                if status == 0:
                    outer.faults += 1
                    self.close_connection = True
                    self.connection.close()
                    return
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection", "server", "date"):
                        self.send_header(name, value)
                if answer.getheader("Content-Length") is None:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def __enter__(self) -> "FaultyS3":
        use(self._server.server_port)
        return self

    def __exit__(self, *_: object) -> None:
        use(server().port)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
