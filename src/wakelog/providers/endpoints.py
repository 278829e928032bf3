"""Whom to ask, and whom a key may be sent to: a log can name an address, and a log may come from anybody.

A key goes to the provider itself, to the address that the environment names beside the key, and to this machine.
Where a log names another address, whoever wakes it must say first that this is where the key belongs. Addresses are
read by the parser that later connects to them, so that what was looked at is what is asked.
"""

import ipaddress
from collections.abc import Mapping

import httpx2
import msgspec

from wakelog.errors import UsageError


class Owner(msgspec.Struct, frozen=True):
    """Whose models they are: the address that is theirs, and the variables that its SDK reads."""

    name: str
    address: str
    keys: tuple[str, ...]
    """Where a key may be; the first that is set is meant."""
    base_url: str
    headers: tuple[str, ...] = ()
    """What else goes into headers, and may well be secret."""
    adds: str = ""
    """What the SDK puts behind every address, so that an address may end in it or not."""


class Server(msgspec.Struct, frozen=True):
    """Whom to ask, and with which key, if any."""

    url: str
    key: str = ""
    is_owner: bool = False
    """Whether this is the provider itself, and not a server that speaks like it."""
    key_from: str = "the key"
    """The key in words: where it came from; without one, the variable that could hold it."""

    @property
    def host(self) -> str:
        """Who is asked, for people: host and port, and nothing else of the address, which may hold secrets."""
        return address_of(self.url).netloc.decode()

    @property
    def refusal(self) -> str:
        """What it does with our key if it does not answer because of it."""
        if not self.key:
            return f"does not answer without a key, and {self.key_from} is not set"
        return f"does not accept {self.key_from}, or not for this"


def server_of(owner: Owner, endpoint: str | None, environ: Mapping[str, str], key_from: str = "") -> Server:
    """The server that is meant. `UsageError` if it is none, if it needs a key and there is none, or may not have it.

    `key_from` says where the key came from, if that is not the variable it stands in.
    """
    url = (endpoint or environ.get(owner.base_url) or owner.address).rstrip("/").removesuffix(owner.adds)
    place, own = address_of(url), address_of(owner.address)
    variable = next((name for name in owner.keys if _word(environ, name)), owner.keys[0])
    key = _word(environ, variable)
    words = (key_from or f"the key in {variable}") if key else variable
    server = Server(url, key, is_owner=_is_within(place.host, own.host), key_from=words)
    if server.is_owner and not key:
        hint = f"set {owner.keys[0]}, or use --model demo, which needs none"
        raise UsageError(f"there is no key for {owner.name}", hint=hint)
    others = [_word(environ, variable) for variable in owner.headers]
    if key or any(others):
        check_trusted(url, own=owner.address, named=environ.get(owner.base_url), variable=owner.base_url)
    return server


def address_of(url: str) -> httpx2.URL:
    """An address, or `UsageError`."""
    try:
        place = httpx2.URL(url)
    except httpx2.InvalidURL:
        place = httpx2.URL("")
    if place.scheme not in ("http", "https") or not place.host or not 0 < _port(place) < 65_536:
        raise UsageError(f"the endpoint {url!r} is no address", hint="use one such as http://localhost:11434/v1")
    return place


def _word(environ: Mapping[str, str], variable: str) -> str:
    """A word out of the environment; it goes into a header, which does not hold everything."""
    value = environ.get(variable, "").strip()
    # Where several headers are given, each has a line.
    plain = value.replace("\n", "") if variable.endswith("_HEADERS") else value
    if not (plain.isascii() and plain.isprintable()):
        raise UsageError(f"{variable} holds signs that no header can carry", hint="set it again")
    return value


# ── trust ────────────────────────────────────────────────────────────────────────────────────────


def check_trusted(endpoint: str, *, own: str, named: str | None, variable: str) -> None:
    """`UsageError` unless a key may be sent there; `named` is what the environment variable holds."""
    place, home = address_of(endpoint), address_of(own)
    is_of_owner = _origin(place) == f"{home.scheme}://{place.host}:443" and _is_within(place.host, home.host)
    if is_here(endpoint) or is_of_owner or _origin(place) == _origin(address_of(named or own)):
        return
    raise UsageError(
        f"the session names {_origin(place)}, and keys are not sent where only a log says so",
        hint=f"set {variable}={endpoint} if that is where your key belongs",
    )


def is_here(url: str) -> bool:
    """Whether an address is on this machine."""
    host = address_of(url).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return _is_within(host, "localhost")


def _is_within(host: str, other: str) -> bool:
    """Whether a host is another one, or a part of it: a region of a provider."""
    return host == other or host.endswith(f".{other}")


def _origin(place: httpx2.URL) -> str:
    """Scheme, host and port: what a key is given to. The path is the server's own affair."""
    return f"{place.scheme}://{place.host}:{_port(place)}"


def _port(place: httpx2.URL) -> int:
    return place.port if place.port is not None else {"http": 80, "https": 443}.get(place.scheme, 0)
