"""A line to a server that can be cut: between a COMMIT and its answer, before the COMMIT, or for good."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Self

COMMIT = b"COMMIT"


class CutLine:
    """Listens on a free port of this machine and passes on to `port`, until it is told to cut."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._cut_before = self._cut_after = False
        self._is_closed = False
        self.cuts = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut_before_commit(self) -> None:
        """The next COMMIT never arrives."""
        self._cut_before = True

    def cut_after_commit(self) -> None:
        """The next COMMIT arrives, and its answer does not."""
        self._cut_after = True

    def cut(self, *, for_good: bool = False) -> None:
        """All connections; with `for_good`, later ones break as soon as they are made."""
        self._is_closed = for_good
        while self._open:
            with suppress(OSError):
                self._open.pop().shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._is_closed = False

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._is_closed:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._to))
                self._open += [client, server]
                waits = threading.Event()
                self._start(client, server, partial(self._sent, waits))
                self._start(server, client, partial(_may_be_answered, waits))

    def _start(self, source: socket.socket, to: socket.socket, passes: Callable[[bytes], bool]) -> None:
        threading.Thread(target=_pump, args=(source, to, passes), daemon=True).start()

    def _sent(self, waits: threading.Event, data: bytes) -> bool:
        if COMMIT in data and self._cut_before:
            self._cut_before, self.cuts = False, self.cuts + 1
            return False
        if COMMIT in data and self._cut_after:
            self._cut_after, self.cuts = False, self.cuts + 1
            waits.set()
        return True


def _may_be_answered(waits: threading.Event, _: bytes) -> bool:
    return not waits.is_set()


def _pump(source: socket.socket, to: socket.socket, passes: Callable[[bytes], bool]) -> None:
    """Until one side ends, or something does not pass: then both end."""
    with suppress(OSError):
        while (data := source.recv(65536)) and passes(data):
            to.sendall(data)
    for each in (source, to):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
