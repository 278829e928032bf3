"""Server addresses, and which of them may receive a key: a log can name an address, and a log is untrusted.

A key is sent to the provider itself, to the address that the environment names beside the key, and to this machine. If
a log names another address, the user must first confirm it in the environment. Addresses are parsed by the HTTP client
that later connects to them, so that the checked address is the one called.
"""

import ipaddress
import re
from collections.abc import Mapping

import httpx2
import msgspec

from wakelog.errors import UsageError
from wakelog.known_secrets import note_provider_key


class Vendor(msgspec.Struct, frozen=True):
    """The owner of models: its address, the headers it requires, and the environment variables that its SDK reads."""

    name: str
    address: str
    key_variables: tuple[str, ...]
    """Variables that may hold a key; the first that is set is used."""
    url_variable: str
    custom_headers_variable: str
    """Variable that holds further headers, one `NAME: VALUE` a line, which override all others."""
    header_variables: Mapping[str, str] = {}
    """Variables whose value is sent in a header, by the header's name."""
    headers: Mapping[str, str] = {}
    """Headers that every request has."""
    path_suffix: str = ""
    """Beginning of every path of the API; an address may end in it or not."""


class Server(msgspec.Struct, frozen=True):
    """The server to call, the headers for it, and the key in them, if any."""

    url: str
    key: str = ""
    headers: Mapping[str, str] = {}
    """Headers by lower-case name: the key, and what the vendor and the environment add."""
    is_vendor: bool = False
    """Whether this is the provider itself, and not a compatible server."""
    is_prepared: bool = False
    """Whether a function of the caller prepares the requests, so that no key is required."""
    key_source: str = "the key"
    """Where the key came from, in words; without a key, the variable that could hold it."""

    @property
    def host(self) -> str:
        """Host and port, for messages; the rest of the address may hold secrets."""
        return parse_address(self.url).netloc.decode()

    @property
    def refusal(self) -> str:
        """How the server treats the key if it refuses it, for messages."""
        if self.is_prepared:
            return "does not accept the prepared request, or not for this"
        if not self.key:
            return f"does not answer without a key, and {self.key_source} is not set"
        return f"does not accept {self.key_source}, or not for this"


def resolve_server(
    vendor: Vendor,
    endpoint: str | None,
    environ: Mapping[str, str],
    key_source: str = "",
    *,
    is_prepared: bool = False,
) -> Server:
    """Return the server to call. `UsageError` for an invalid address, a missing key, or one that may not be sent there.

    `key_source` describes where the key came from, if that is not its environment variable. `is_prepared`: a function
    of the caller adds credentials, so no key is required, and the address must be trusted also without a key.
    """
    url = (endpoint or environ.get(vendor.url_variable) or vendor.address).rstrip("/").removesuffix(vendor.path_suffix)
    place, own = parse_address(url), parse_address(vendor.address)
    variable = next((name for name in vendor.key_variables if _header_value(environ, name)), vendor.key_variables[0])
    key = _header_value(environ, variable)
    note_provider_key(key)
    is_vendor = _is_host_or_subdomain(place.host, own.host)
    if is_vendor and not key and not is_prepared:
        hint = f"set {vendor.key_variables[0]}, or use --model demo, which needs none"
        raise UsageError(f"no API key for {vendor.name}", hint=hint)
    others = [
        environ.get(name, "").strip() for name in (*vendor.header_variables.values(), vendor.custom_headers_variable)
    ]
    if key or is_prepared or any(others):
        check_trusted(
            url,
            vendor_address=vendor.address,
            configured_address=environ.get(vendor.url_variable),
            variable=vendor.url_variable,
        )
    # A server that requires no key still gets the header: compatible servers check that it is there.
    authorization = {} if is_prepared and not key else {"authorization": f"Bearer {key or _NO_KEY}"}
    return Server(
        url,
        key,
        headers={**authorization, **vendor.headers, **_environment_headers(vendor, environ)},
        is_vendor=is_vendor,
        is_prepared=is_prepared,
        key_source=(key_source or f"the key in {variable}") if key else variable,
    )


def parse_address(url: str) -> httpx2.URL:
    """Return the parsed address; `UsageError` if it is invalid."""
    try:
        place = httpx2.URL(url)
    except httpx2.InvalidURL:
        place = httpx2.URL("")
    if place.scheme not in ("http", "https") or not place.host or not 0 < _port(place) < 65_536:
        raise UsageError(f"the endpoint {url!r} is not a valid URL", hint="use a URL such as http://localhost:11434/v1")
    return place


def request_url(url: str, path: str) -> str:
    """Return the address of an API call: the server's address with a path after its own, before its query."""
    place = parse_address(url)
    base, mark, query = place.raw_path.partition(b"?")
    return str(place.copy_with(raw_path=base.rstrip(b"/") + path.encode() + mark + query))


# ── headers from the environment ─────────────────────────────────────────────────────────────────

_NO_KEY = "none"
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def _environment_headers(vendor: Vendor, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that variables add, by lower-case name; those of the user override those of the vendor."""
    named = {header: _header_value(environ, variable) for header, variable in vendor.header_variables.items()}
    return {header: value for header, value in named.items() if value} | _custom_headers(
        environ.get(vendor.custom_headers_variable, ""), vendor.custom_headers_variable
    )


def _custom_headers(text: str, variable: str) -> dict[str, str]:
    """Return the headers of a variable that holds one a line; lines without a colon are ignored, as the SDKs do."""
    headers = {}
    for line in text.split("\n"):
        name, colon, value = (piece.strip() for piece in line.partition(":"))
        if not (line.strip().isascii() and line.strip().isprintable() and (not colon or _HEADER_NAME.fullmatch(name))):
            raise _unusable(variable)
        if colon:
            headers[name.lower()] = value
    return headers


def _header_value(environ: Mapping[str, str], variable: str) -> str:
    """Return a variable's value for a header; `UsageError` if a header cannot hold it."""
    value = environ.get(variable, "").strip()
    if not (value.isascii() and value.isprintable()):
        raise _unusable(variable)
    return value


def _unusable(variable: str) -> UsageError:
    return UsageError(
        f"{variable} contains characters that an HTTP header cannot hold", hint="set it to printable ASCII"
    )


# ── trust ────────────────────────────────────────────────────────────────────────────────────────


def check_trusted(endpoint: str, *, vendor_address: str, configured_address: str | None, variable: str) -> None:
    """Raise `UsageError` unless a key may be sent there; `configured_address` is the value of `variable`."""
    place, home = parse_address(endpoint), parse_address(vendor_address)
    is_of_vendor = _origin(place) == f"{home.scheme}://{place.host}:443" and _is_host_or_subdomain(
        place.host, home.host
    )
    if (
        is_loopback(endpoint)
        or is_of_vendor
        or _origin(place) == _origin(parse_address(configured_address or vendor_address))
    ):
        return
    raise UsageError(
        f"the log names the endpoint {_origin(place)}; a key is not sent to an endpoint that only a log names",
        hint=f"set {variable}={endpoint} if your key may be sent there",
    )


def is_loopback(url: str) -> bool:
    """Return whether an address is on this machine."""
    host = parse_address(url).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return _is_host_or_subdomain(host, "localhost")


def _is_host_or_subdomain(host: str, other: str) -> bool:
    """Return whether a host equals another or is a subdomain of it, such as a region of a provider."""
    return host == other or host.endswith(f".{other}")


def _origin(place: httpx2.URL) -> str:
    """Return scheme, host and port, which decide whether a key is sent. The path does not matter."""
    return f"{place.scheme}://{place.host}:{_port(place)}"


def _port(place: httpx2.URL) -> int:
    return place.port if place.port is not None else {"http": 80, "https": 443}.get(place.scheme, 0)
