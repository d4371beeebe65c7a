"""moto's S3 server on a free port of loopback, which it prints. One request at a time: its conditions are not atomic."""

import sys
import threading
from collections.abc import Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

application = DomainDispatcherApplication(create_backend_app)
one_at_a_time = threading.Lock()


def locked(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
    with one_at_a_time:
        return application(environ, start)  # type: ignore[no-any-return]


class Quiet(WSGIRequestHandler):
    """Keeps no log."""

    def log(self, *_: Any) -> None:
        """Nobody reads it."""


server = make_server("127.0.0.1", 0, locked, threaded=True, request_handler=Quiet)
sys.stdout.write(f"{server.server_port}\n")
sys.stdout.flush()
server.serve_forever()
