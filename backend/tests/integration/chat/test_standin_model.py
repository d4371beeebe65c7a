"""What the stand-in's log says of calls that overlap: the promise of one turn at a time is tested with it."""

import json
import socket

from tests.processes import StandInModel
from tests.stress.utils import overlaps

_CHAT = json.dumps(
    {"stream": True, "session_id": "one", "messages": [{"role": "user", "content": "Paris, Berlin, Rome"}]}
)
_REQUEST = (
    "POST /v1/chat/completions HTTP/1.1\r\nHost: stand-in\r\nContent-Type: application/json\r\n"
    f"Content-Length: {len(_CHAT)}\r\n\r\n{_CHAT}"
)
_ROUNDS = 20


def _streaming(model: StandInModel) -> socket.socket:
    """A chat of which the first bytes have come."""
    connection = socket.create_connection(("127.0.0.1", int(model.base_url.split(":")[2].split("/")[0])))
    connection.sendall(_REQUEST.encode())
    assert connection.recv(100).startswith(b"HTTP/1.1 200")
    return connection


def test_a_call_that_was_given_up_does_not_overlap_the_next() -> None:
    with StandInModel() as model:
        model.control(chunk_delay_seconds=1)
        for _ in range(_ROUNDS):
            _streaming(model).close()
        assert len(model.log()) == _ROUNDS
        assert overlaps(model.log()) == []


def test_a_call_made_while_another_is_listened_to_overlaps_it() -> None:
    with StandInModel() as model:
        model.control(chunk_delay_seconds=1)
        with _streaming(model), _streaming(model):
            pass
        assert "timed_out" not in model.calls(in_flight=0)
        assert overlaps(model.log()) == ["one"]
