"""Links are fetched from the address that was checked, and lead nowhere inside by any way."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import httpx2
import pytest

from recollect.infra.addresses import Addresses
from recollect.infra.documents import DocumentReader, UnreadableError
from recollect.infra.link_fetcher import MOST_BYTES, LinkFetcher

OUTSIDE = "93.184.215.14"
Answering = Callable[[httpx2.Request], httpx2.Response]


class Web:
    """What lies outside, as the fetcher asks it."""

    def __init__(self, answer: Answering) -> None:
        self.asked: list[httpx2.Request] = []
        self.resolved: list[str] = []
        self._answer = answer

    def fetcher(self, seconds: float = 5) -> LinkFetcher:
        addresses = Addresses(schemes="http: or https:", resolve=self._resolve)
        transport = httpx2.MockTransport(self._received)
        return LinkFetcher(addresses, DocumentReader(), seconds, transport=transport)

    def _resolve(self, host: str) -> Sequence[str]:
        self.resolved.append(host)
        return ["10.0.0.7"] if host == "inside.example" else [OUTSIDE]

    def _received(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        return self._answer(request)


async def _arriving(content: bytes) -> AsyncIterator[bytes]:
    yield content


def text(content: bytes = b"hello", **headers: str) -> Answering:
    return lambda request: httpx2.Response(
        200, content=_arriving(content), headers={"Content-Type": "text/plain", **headers}
    )


async def test_a_page_comes_from_the_address_that_was_checked_and_is_looked_up_once() -> None:
    web = Web(text(b"a page"))
    found = await web.fetcher().fetch("http://page.example:8080/x?y=1#z", "ann")
    assert (found.text, web.resolved) == ("a page", ["page.example"])
    (request,) = web.asked
    assert str(request.url) == f"http://{OUTSIDE}:8080/x?y=1"
    assert request.headers["Host"] == "page.example:8080"
    assert request.extensions["sni_hostname"] == "page.example"


@pytest.mark.parametrize(
    "onwards",
    [
        "http://127.0.0.1/admin",
        "https://inside.example/",
        "http://[::1]/",
        "file:///etc/passwd",
        "//0x7f000001/",
    ],
)
async def test_no_redirection_leads_inside(onwards: str) -> None:
    web = Web(lambda request: httpx2.Response(302, headers={"Location": onwards}))
    with pytest.raises(UnreadableError, match="its address must"):
        await web.fetcher().fetch("https://page.example/", "ann")
    assert len(web.asked) == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (text(b"x" * (MOST_BYTES + 1)), "more than 5 MB"),
        (text(b"x", **{"Content-Type": "application/zip"}), "application/zip"),
        (text(b"x", **{"Content-Encoding": "br"}), "compressed"),
        (text(b"\xff\xff"), "UTF-8"),
        (lambda request: httpx2.Response(404), "answers 404"),
        (lambda request: httpx2.Response(302, headers={"Location": "/again"}), "more than 3 times"),
    ],
)
async def test_what_is_too_much_or_of_another_kind_is_left_there(answer: Answering, why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        await Web(answer).fetcher().fetch("https://page.example/", "ann")


async def test_a_slow_page_is_given_up() -> None:
    async def never(request: httpx2.Request) -> httpx2.Response:
        await asyncio.Event().wait()
        raise AssertionError

    fetcher = LinkFetcher(
        Addresses(resolve=lambda host: [OUTSIDE]),
        DocumentReader(),
        0.05,
        transport=httpx2.MockTransport(never),
    )
    with pytest.raises(UnreadableError, match="longer than"):
        await fetcher.fetch("https://page.example/", "ann")
