"""Whether an address leads out of this machine, or out of its network."""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import SplitResult, urlsplit

from recollect.errors import InvalidInput, TooMuchQueued

_LONGEST = 8192
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")
"""Parsers disagree about what these mean in an address."""
_INSIDE_NAMES = (".localhost", ".local", ".internal", ".home.arpa")
"""Domains that are set aside for one machine or one network; a name without a dot is of this network too."""
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")
_GLOBAL_IPV6 = ipaddress.ip_network("2000::/3")
_6TO4 = ipaddress.ip_network("2002::/16")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_INSIDE = "must not lead to this machine or a private network"
_THREADS = 128
"""At most, of their own: a lookup can't be stopped, and slow ones must not keep anything else waiting."""
_TOO_SLOW = "its host could not be looked up in time"


def resolved(host: str) -> Sequence[str]:
    """The addresses of a name; none for a name that this machine doesn't know: a backend elsewhere may. Blocks."""
    try:
        return [str(found[4][0]) for found in socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)]
    except OSError:
        return []


class Addresses:
    """Which URLs may be followed on a caller's behalf."""

    def __init__(
        self,
        *,
        allow_private: bool = False,
        schemes: str = "https:",
        resolve: Callable[[str], Sequence[str]] = resolved,
        seconds: float = 5.0,
        threads: int = _THREADS,
    ) -> None:
        """With `allow_private` every http: and https: URL may. All of a request are looked up in so many seconds.

        `schemes`: what a refusal says that a URL must begin with; http: is followed where that names it.
        """
        self._schemes = schemes
        self._allow_private = allow_private
        self._resolve = resolve
        self._seconds = seconds
        self._most = threads
        self._threads = ThreadPoolExecutor(threads, "resolve")
        self._under_way: dict[Hashable, asyncio.Future[Sequence[str]]] = {}
        """By user: one at a time, so that slow names of one keep nobody else waiting."""

    async def check(self, links: Iterable[tuple[str, str]], user: Hashable) -> None:
        """Of the places and URLs of a request, raises InvalidInput for one that is not https, is ambiguous, or leads
        inside; it says why, and names the place. Raises TooMuchQueued if other users' lookups left no thread in time.
        """
        seen = set[str | None]([None])
        ends = asyncio.get_running_loop().time() + self._seconds
        for place, url in links:
            try:
                if (host := self._named_host(url)) not in seen:
                    await self._look_up(str(host), user, ends)
                    seen.add(host)
            except ValueError as error:
                raise InvalidInput(f"{place}: {error}", field=place) from None
            except TooMuchQueued:
                raise TooMuchQueued(
                    f"{place}: too many hosts are being looked up: try again", field=place
                ) from None

    async def addresses_of(self, url: str, user: Hashable) -> Sequence[str]:
        """Addresses to connect to for a URL, none of them inside; empty for a name that is not known.

        Raises ValueError, which says why, for a URL that may not be followed, and TooMuchQueued as `check` does.
        """
        ends = asyncio.get_running_loop().time() + self._seconds
        if not (host := self._named_host(url) or _host_of(url)):
            raise ValueError("must name a host")
        literal = _literal(host)
        return [str(literal)] if literal is not None else await self._look_up(host, user, ends)

    def _named_host(self, url: str) -> str | None:
        is_allowed = self._allow_private and url.lower().startswith(("http://", "https://"))
        return None if is_allowed else _named_host(url, self._schemes)

    async def _look_up(self, host: str, user: Hashable, ends: float) -> Sequence[str]:
        while (before := self._under_way.get(user)) is not None:
            if not await _is_done(before, ends):
                raise ValueError(_TOO_SLOW)
        job = self._threads.submit(self._resolve, host)
        looking = self._under_way[user] = asyncio.wrap_future(job)
        looking.add_done_callback(lambda _: self._under_way.pop(user))
        looking.add_done_callback(_consume)
        try:
            is_done = await _is_done(looking, ends)
        finally:
            job.cancel()  # Stops it only if no thread has begun.
        if job.cancelled() and len(self._under_way) > self._most:
            raise TooMuchQueued
        if not is_done:
            raise ValueError(_TOO_SLOW)
        found = job.result()
        outside = (_is_outside(ipaddress.ip_address(each.partition("%")[0])) for each in found)
        if not self._allow_private and not all(outside):
            raise ValueError(_INSIDE)
        return found


async def _is_done(looking: asyncio.Future[Sequence[str]], ends: float) -> bool:
    """Wait for a lookup until that time of the loop."""
    left = ends - asyncio.get_running_loop().time()
    return bool((await asyncio.wait([looking], timeout=max(0, left)))[0])


def _consume(looking: asyncio.Future[Sequence[str]]) -> None:
    """Nobody may wait for it any longer: its error is no "exception was never retrieved"."""
    if not looking.cancelled():
        looking.exception()


def _is_outside(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether it is a public address: not loopback, private, link-local, multicast or reserved, in no guise."""
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not address.is_multicast and not address.is_reserved
    if address in _NAT64:
        return _is_outside(ipaddress.IPv4Address(address.packed[-4:]))
    return address in _GLOBAL_IPV6 and address not in _6TO4 and address.is_global


def _named_host(url: str, schemes: str) -> str | None:
    """The name of a URL's host, which is to be resolved; None for a literal public address.

    Raises ValueError for what can be told by the text alone.
    """
    if len(url) > _LONGEST:
        raise ValueError(f"must not be longer than {_LONGEST} characters")
    if _UNSAFE.search(url):
        raise ValueError("must not hold spaces, control characters or backslashes")
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and "http:" in schemes.split()):
        raise ValueError(f"must begin with {schemes}")
    _check_port(parts)
    if not parts.hostname or "@" in parts.netloc or "%" in parts.netloc:
        raise ValueError("must name a host, without a user or an escape")
    try:
        is_ipv6 = ":" in parts.hostname
        host = parts.hostname if is_ipv6 else parts.hostname.encode("idna").decode().rstrip(".")
    except UnicodeError:
        raise ValueError("must name a valid host") from None
    address = _literal(host)
    if address is not None:
        if not _is_outside(address):
            raise ValueError(_INSIDE)
        return None
    if "." not in host or host.endswith(_INSIDE_NAMES) or _NUMBER.fullmatch(host.rpartition(".")[2]):
        raise ValueError(_INSIDE)
    return host


def _host_of(url: str) -> str:
    if _UNSAFE.search(url) or len(url) > _LONGEST:
        raise ValueError("must not hold spaces, control characters or backslashes, nor be too long")
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise ValueError("must not name a user")
    _check_port(parts)
    return parts.hostname or ""


def _check_port(parts: SplitResult) -> None:
    try:
        is_valid = parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ValueError("must name a port from 1 to 65535, or none")


def _literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """IPv4 as C libraries read it, too: 127.1, 0x7f000001, 2130706433, 0177.0.0.1."""
    try:
        return ipaddress.IPv6Address(host) if ":" in host else ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None


def is_loopback(host: str) -> bool:
    """Whether listening on this address keeps the server to this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
