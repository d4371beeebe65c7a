"""Lines and server-sent events out of pieces of a stream, in bounded memory."""

from collections.abc import Iterator

MAX_EVENT_BYTES = 4 * 1024 * 1024


class EndlessLineError(Exception):
    """A line or an event that is longer than any answer's piece can be."""


class JsonLines:
    """One event a line, as Ollama streams."""

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._rest: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The events that this piece completes."""
        for line in self._lines(chunk):
            if stripped := line.strip():
                yield stripped

    def flush(self) -> Iterator[bytes]:
        """What the stream's end completes."""
        yield from self.feed(b"\n")

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        head, *others = chunk.split(b"\n")
        self._keep(head)
        for following in others:
            line = b"".join(self._rest)
            self._rest, self._size = [], 0
            yield line
            self._keep(following)

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._rest.append(piece)
            self._size += len(piece)
            if self._size > self._limit:
                raise EndlessLineError


class ServerSentEvents(JsonLines):
    """The data of server-sent events; names, ids and comments are of no use here."""

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        super().__init__(limit)
        self._data: list[bytes] = []
        self._data_size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        for line in self._lines(chunk):
            stripped = line.rstrip(b"\r")
            if not stripped:
                yield from self._event()
            elif stripped.startswith(b"data:"):
                self._add(stripped[5:].strip())
            elif stripped.startswith(b"error:"):  # llama.cpp names a fault in mid-stream so.
                self._add(b'{"error": ' + stripped[6:].strip() + b"}")

    def flush(self) -> Iterator[bytes]:
        yield from self.feed(b"\n")
        yield from self._event()

    def _event(self) -> Iterator[bytes]:
        if self._data:
            event = b"\n".join(self._data)
            self._data, self._data_size = [], 0
            yield event

    def _add(self, data: bytes) -> None:
        self._data.append(data)
        self._data_size += len(data)
        if self._data_size > self._limit:
            raise EndlessLineError
