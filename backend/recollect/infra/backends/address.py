"""What can be read off an address. Nothing here resolves a name or opens a connection."""

import hashlib
import ipaddress
import os
import re
import socket
from urllib.parse import urlsplit

from recollect.setting_groups import BackendKind

_VERSION = re.compile(r"/v\d+[a-z]*\d*(?=/|$)")
_LOCAL_NETWORKS = tuple(
    ipaddress.ip_network(network)
    for network in (
        "127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10",
        "::1/128", "fe80::/10", "fc00::/7",
    )
)  # fmt: skip
FROM_PROCESS = "X-Recollect-Process"
"""Sent to local model servers: a Recollect that gets its own name back is about to be its own model."""
OWN_ADDRESS = 421
_LOCAL_NAMES = frozenset({"localhost", "host.docker.internal"})
_LOCAL_ENDINGS = (".localhost", ".local")
_CLOUD_HOSTS: dict[str, BackendKind] = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "openrouter.ai": "openrouter",
    "api.mistral.ai": "other",
    "api.cerebras.ai": "other",
    "api.groq.com": "other",
    "api.deepseek.com": "other",
    "api.together.xyz": "other",
    "api.fireworks.ai": "other",
    "api.x.ai": "other",
    "generativelanguage.googleapis.com": "other",
    "ollama.com": "other",
}


def process_name() -> str:
    """Of this process among all that may reach each other; it tells nothing about the machine."""
    return hashlib.sha256(f"{socket.gethostname()} {os.getpid()}".encode()).hexdigest()[:16]


def api_root(base_url: str) -> str:
    """Where the versioned routes are: `http://host`, `…/v1` and `…/v1/` are the same.

    A path that names a version somewhere (`…/v1beta/openai`) is used as it is.
    """
    root = base_url.rstrip("/")
    if not re.match(r"https?://[^/]", root):
        raise ValueError("the address of a model's server must begin with http:// or https://")
    return root if _VERSION.search(urlsplit(root).path) else f"{root}/v1"


def server_root(base_url: str) -> str:
    """The root of routes without a version: what precedes the version in the path."""
    root = api_root(base_url)
    path = urlsplit(root).path
    version = _VERSION.search(path)
    assert version is not None
    return root[: len(root) - len(path) + version.start()]


def host_and_port(base_url: str) -> str:
    """One text for one server: this machine's names are all `127.0.0.1`, and the port is always there."""
    parts = urlsplit(base_url)
    host = (parts.hostname or "").lower().rstrip(".")
    if host in ("localhost", "::1"):
        host = "127.0.0.1"
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_local(base_url: str) -> bool:
    """Whether the name or the literal address is of this machine or its own network."""
    host = (urlsplit(base_url).hostname or "").lower().rstrip(".")
    if host in _LOCAL_NAMES or host.endswith(_LOCAL_ENDINGS):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in _LOCAL_NETWORKS)


def cloud_kind(base_url: str) -> BackendKind | None:
    """The kind of a well-known cloud host; None for all others."""
    host = (urlsplit(base_url).hostname or "").lower().rstrip(".")
    return _CLOUD_HOSTS.get(host)
