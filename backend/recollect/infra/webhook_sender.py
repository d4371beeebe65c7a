"""Sends a delivery to a webhook's address: to the very addresses that were checked, without following anything."""

import asyncio
from collections.abc import Mapping
from urllib.parse import urlsplit

import httpx2

from recollect.errors import DeliveryFailed, InvalidInput, TooMuchQueued
from recollect.infra.addresses import Addresses

_MOST_READ = 65_536
"""Bytes of an answer; what it says is not used."""


class WebhookSender:
    """May be closed and used again."""

    def __init__(self, addresses: Addresses, seconds: float) -> None:
        self._addresses = addresses
        self._seconds = seconds
        self._client: httpx2.AsyncClient | None = None

    async def check(self, url: str, user: object) -> None:
        """Raises InvalidInput, which says why, for a URL that no delivery may go to."""
        try:
            httpx2.URL(url)
            await self._addresses.addresses_of(url, user)
        except (ValueError, httpx2.InvalidURL) as error:
            raise InvalidInput(f"url: {_words(error)}", field="url") from None

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        """POST it once. Raises DeliveryFailed unless the receiver answers 2xx in time."""
        try:
            async with asyncio.timeout(self._seconds):
                status = await self._post(url, headers, body)
        except TimeoutError:
            raise DeliveryFailed(f"the receiver did not answer within {self._seconds:g} s") from None
        except (ValueError, httpx2.InvalidURL) as error:
            raise DeliveryFailed(f"its URL {_words(error)}") from None
        except TooMuchQueued as error:
            raise DeliveryFailed(error.message) from None
        except (httpx2.HTTPError, OSError) as error:
            raise DeliveryFailed(f"the receiver cannot be reached ({type(error).__name__})") from error
        if not 200 <= status < 300:
            raise DeliveryFailed(f"the receiver answered {status}")

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        """To the first address that takes it."""
        found = await self._addresses.addresses_of(url, url)
        if not found:
            raise ValueError("names a host that is not known")
        *others, last = dict.fromkeys(found)
        for address in others:
            try:
                return await self._post_to(address, url, headers, body)
            except httpx2.ConnectError:
                continue
        return await self._post_to(last, url, headers, body)

    async def _post_to(self, address: str, url: str, headers: Mapping[str, str], body: bytes) -> int:
        """The name is used for Host and for the certificate alone, and not looked up again."""
        named = httpx2.URL(url)
        request = self._opened().build_request(
            "POST",
            named.copy_with(host=address),
            content=body,
            headers={**headers, "Host": named.netloc.decode("ascii"), "User-Agent": "Recollect"},
            extensions={"sni_hostname": urlsplit(url).hostname},
        )
        answer = await self._opened().send(request, stream=True)
        try:
            read = 0
            async for piece in answer.aiter_raw():
                read += len(piece)
                if read >= _MOST_READ:
                    break
        finally:
            await answer.aclose()
        return answer.status_code

    def _opened(self) -> httpx2.AsyncClient:
        if self._client is None:
            # A kept connection could be another name's at the same address.
            limits = httpx2.Limits(max_keepalive_connections=0)
            self._client = httpx2.AsyncClient(
                trust_env=False, follow_redirects=False, limits=limits, timeout=self._seconds
            )
        return self._client


def _words(error: Exception) -> str:
    return str(error) or "is not valid"
