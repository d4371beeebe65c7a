"""Fetches a page that a person links to: from the very addresses that were checked, by limits, never from inside."""

import asyncio
from collections.abc import Hashable
from urllib.parse import urljoin, urlsplit

import httpx2

from recollect.errors import TooMuchQueued
from recollect.infra.addresses import Addresses
from recollect.infra.documents import Document, DocumentReader, UnreadableError

MOST_BYTES = 5 * 1024 * 1024
_MOST_REDIRECTS = 3
_REDIRECTS = frozenset([301, 302, 303, 307, 308])
_READABLE = ("text/", "application/pdf", "application/json", "application/xhtml+xml", "application/xml")


class LinkFetcher:
    """Uses a connection once: a kept one could be another name's at the same address."""

    def __init__(
        self,
        addresses: Addresses,
        reader: DocumentReader,
        seconds: float,
        *,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._addresses = addresses
        self._reader = reader
        self._seconds = seconds
        self._transport = transport

    async def fetch(self, url: str, user: Hashable) -> Document:
        """The text of what is there. Raises UnreadableError, in words, for whatever keeps it from being read."""
        try:
            async with asyncio.timeout(self._seconds):
                content, media_type = await self._content(url, user)
                return await self._reader.read(content, media_type)
        except TimeoutError:
            raise UnreadableError(f"took longer than {self._seconds:g} s") from None
        except (ValueError, httpx2.InvalidURL) as error:
            raise UnreadableError(f"its address {str(error) or 'is not valid'}") from None
        except TooMuchQueued as error:
            raise UnreadableError(error.message) from None
        except (httpx2.HTTPError, OSError) as error:
            raise UnreadableError(f"cannot be reached ({type(error).__name__})") from error

    async def _content(self, url: str, user: Hashable) -> tuple[bytes, str]:
        """Every redirection is checked as the first address was."""
        for _ in range(_MOST_REDIRECTS + 1):
            found = await self._addresses.addresses_of(url, user)
            if not found:
                raise ValueError("names a host that is not known")
            got = await self._get(url, found[0])
            if isinstance(got, tuple):
                return got
            url = urljoin(url, got)
        raise UnreadableError(f"leads on more than {_MOST_REDIRECTS} times")

    async def _get(self, url: str, address: str) -> tuple[bytes, str] | str:
        """What is there, with its type, or where it leads on. The host's name is not looked up again."""
        named = httpx2.URL(url)
        headers = {
            "Host": named.netloc.decode("ascii"),
            "User-Agent": "Recollect",
            "Accept": "text/html, text/plain, text/markdown, application/pdf",
            "Accept-Encoding": "identity",
        }
        limits = httpx2.Limits(max_keepalive_connections=0)
        async with (
            httpx2.AsyncClient(
                trust_env=False, follow_redirects=False, limits=limits, transport=self._transport
            ) as client,
            client.stream(
                "GET",
                named.copy_with(host=address, fragment=None),
                headers=headers,
                extensions={"sni_hostname": urlsplit(url).hostname},
            ) as answer,
        ):
            if answer.status_code in _REDIRECTS and (onwards := answer.headers.get("location")):
                return str(onwards)
            if answer.status_code != 200:
                raise UnreadableError(f"answers {answer.status_code}")
            media_type = answer.headers.get("content-type", "text/plain").partition(";")[0].strip().lower()
            if not media_type.startswith(_READABLE):
                raise UnreadableError(f"is of the type {media_type[:60]}, which can't be read")
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise UnreadableError("is sent compressed, though that was not asked for")
            content = bytearray()
            async for piece in answer.aiter_raw():
                content += piece
                if len(content) > MOST_BYTES:
                    raise UnreadableError(f"has more than {MOST_BYTES // 1024 // 1024} MB")
            return bytes(content), media_type
