"""Whether an address leads out of this machine, or out of its network."""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

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
_THREADS = 2
"""Of their own: a lookup can't be stopped, and slow ones must not keep anything else waiting."""
_SECONDS = 2.0


def resolved(host: str) -> Sequence[str]:
    """The addresses of a name; none for a name that this machine doesn't know: a backend elsewhere may. Blocks."""
    try:
        return [str(found[4][0]) for found in socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)]
    except OSError:
        return []


class Addresses:
    """Which URLs may be followed on a caller's behalf."""

    def __init__(
        self, *, allow_private: bool = False, resolve: Callable[[str], Sequence[str]] = resolved
    ) -> None:
        """With `allow_private` every http: and https: URL may."""
        self._allow_private = allow_private
        self._resolve = resolve
        self._threads = ThreadPoolExecutor(_THREADS, "resolve")

    async def check(self, url: str) -> None:
        """Raises ValueError, which says why, for a URL that is not https, is ambiguous, or leads inside."""
        if self._allow_private and url.lower().startswith(("http://", "https://")):
            return
        host = _named_host(url)
        if host is None:
            return
        looking = asyncio.get_running_loop().run_in_executor(self._threads, self._resolve, host)
        try:
            found = await asyncio.wait_for(looking, _SECONDS)
        except TimeoutError:
            raise ValueError("its host could not be looked up in time") from None
        if not all(_is_outside(ipaddress.ip_address(address.partition("%")[0])) for address in found):
            raise ValueError(_INSIDE)


def _is_outside(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether it is a public address: not loopback, private, link-local, multicast or reserved, in no guise."""
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not address.is_multicast and not address.is_reserved
    if address in _NAT64:
        return _is_outside(ipaddress.IPv4Address(address.packed[-4:]))
    return address in _GLOBAL_IPV6 and address not in _6TO4 and address.is_global


def _named_host(url: str) -> str | None:
    """The name of a URL's host, which is to be resolved; None for a literal public address.

    Raises ValueError for what can be told by the text alone.
    """
    if len(url) > _LONGEST:
        raise ValueError(f"must not be longer than {_LONGEST} characters")
    if _UNSAFE.search(url):
        raise ValueError("must not hold spaces, control characters or backslashes")
    parts = urlsplit(url)
    if parts.scheme != "https":
        raise ValueError("must begin with https: or data:")
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
