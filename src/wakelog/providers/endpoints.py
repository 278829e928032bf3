"""Whom a key may be sent to: a log can name an address, and a log may come from anybody.

A key goes to the provider itself, to the address that the environment names beside the key, and to this machine.
Where a log names another address, whoever wakes it must say first that this is where the key belongs.
"""

import ipaddress
from urllib.parse import urlsplit

from wakelog.errors import UsageError


def check_trusted(endpoint: str, *, own: str, named: str | None, variable: str) -> None:
    """`UsageError` unless a key may be sent there; `named` is what the environment variable holds."""
    if _is_here(endpoint) or _is_of(endpoint, own) or _origin(endpoint) == _origin(named or own):
        return
    place = _origin(endpoint)
    raise UsageError(
        f"the session names {place}, and keys are not sent where only a log says so",
        hint=f"set {variable}={endpoint} if that is where your key belongs",
    )


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _is_of(url: str, own: str) -> bool:
    """Whether an address is the provider's own, or a region of it."""
    host, scheme = urlsplit(own).hostname or "", urlsplit(own).scheme
    region = f"{scheme}://{urlsplit(url).hostname}:443"
    return _origin(url) == region and f".{urlsplit(url).hostname}".endswith(f".{host}")


def _origin(url: str) -> str:
    """Scheme, host and port: what a key is given to. The path is the server's own affair."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    return f"{parts.scheme}://{parts.hostname}:{port}"
