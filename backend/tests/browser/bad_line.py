"""A way to a server that breaks off when it is told to."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Self
from urllib.parse import urlsplit


class BadLine:
    """Passes on all that is sent to `address`, for as long as the `with` block runs; `break_off` ends every connection."""

    def __init__(self, server: str) -> None:
        self._server = urlsplit(server)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        _hang_up(self._listener)
        self._threads[0].join()
        self.break_off()
        for thread in self._threads:
            thread.join()
        for end in (self._listener, *self._ends):
            end.close()

    def break_off(self) -> None:
        for end in list(self._ends):
            _hang_up(end)

    def _start(self, work: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=work))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):  # It was hung up.
            while True:
                client, _ = self._listener.accept()
                self._ends.append(client)
                server = socket.create_connection((self._server.hostname, self._server.port))
                self._ends.append(server)
                self._start(partial(_pass_on, client, server))
                self._start(partial(_pass_on, server, client))


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # It was broken off.
        while data := source.recv(65536):
            target.sendall(data)
    _hang_up(source)
    _hang_up(target)


def _hang_up(end: socket.socket) -> None:
    with suppress(OSError):  # The other side was quicker.
        end.shutdown(socket.SHUT_RDWR)
