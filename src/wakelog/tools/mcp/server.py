"""Description of an MCP server as a value, with everything needed to start it again and no secret; its failures.

Pure. The value is part of the configuration and, with every tool of the server, of the log. It is validated when it
is created, wherever it comes from: a log is as untrusted as any other file.
"""

import posixpath
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from wakelog.decoding import convert
from wakelog.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class McpServer(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """An MCP server: a `command` that uses its standard input and output, or the `url` of a running server.

    `env` names the variables that a command gets besides the default ones; `bearer_env` names the one that holds the
    token for a URL, `headers_from` those that hold the values of headers. `cwd` is the working directory of a command.
    `timeout_s` limits the duration of a start, and of a call.
    """

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    env: tuple[str, ...] = ()
    bearer_env: str = ""
    headers_from: dict[str, str] = {}
    cwd: str = ""
    trusted: bool = False
    timeout_s: float = 60.0

    def __post_init__(self) -> None:
        _check_name(self.name)
        if bool(self.command) == bool(self.url):
            raise self._wrong("needs either a command or a url", "set one of them")
        if self.url:
            self._check_url()
        else:
            self._check_command()
        for variable in (*self.env, *self.headers_from.values(), *filter(None, [self.bearer_env])):
            if not _VARIABLE.fullmatch(variable):
                raise self._wrong(
                    f"has an invalid variable name: {variable!r}", "give the name of a variable, not its value"
                )
        if not 0 < self.timeout_s < float("inf"):
            raise self._wrong(f"has an invalid timeoutS: {self.timeout_s}", "use a number of seconds above 0")

    @property
    def value(self) -> dict[str, Any]:
        """The server as a JSON object."""
        found: dict[str, Any] = msgspec.json.decode(self.key)
        return found

    @property
    def key(self) -> bytes:
        """The deterministic encoding; servers with equal keys share one process."""
        return msgspec.json.encode(self, order="deterministic")

    def in_folder(self, cwd: str) -> "McpServer":
        """Return the same server in the folder of a session; its own `cwd`, if set, is relative to that folder."""
        return self if self.url else msgspec.structs.replace(self, cwd=posixpath.join(cwd, self.cwd))

    def _check_url(self) -> None:
        parts = _split_url(self.url)
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            raise self._wrong(f"has an invalid url: {self.url!r}", "write http://… or https://…")
        if parts.username is not None or parts.password is not None:
            hint = "put the token in a variable, and the variable's name in bearerEnv"
            raise self._wrong("has a secret in its url, which every log would contain", hint)
        if self.env or self.cwd:
            raise self._wrong("has a url, so env and cwd have no effect", "remove them")
        for header in self.headers_from:
            if not _HEADER.fullmatch(header):
                raise self._wrong(
                    f"has an invalid header name: {header!r}", 'write headersFrom as {"X-Key": "VARIABLE"}'
                )

    def _check_command(self) -> None:
        if not self.command[0] or any("\0" in word for word in self.command):
            raise self._wrong("has a command that cannot be run", "write it as a list: the program, then its arguments")
        if self.bearer_env or self.headers_from:
            raise self._wrong("has a command, so bearerEnv and headersFrom have no effect", "use env")

    def _wrong(self, what: str, hint: str) -> UsageError:
        return UsageError(f"the MCP server {self.name} {what}", hint=hint)


def parse_server(value: Mapping[str, Any]) -> McpServer:
    """Return the server that a JSON object describes; `UsageError` in one line if it is invalid."""
    try:
        return convert(dict(value), McpServer)
    except msgspec.ValidationError as error:
        named = value.get("name")
        name = named if isinstance(named, str) and _NAME.fullmatch(named) else "without a name"
        hint = "its keys are name, command or url, env, bearerEnv, headersFrom, cwd, trusted, timeoutS"
        raise UsageError(f"the description of the MCP server {name} is invalid: {error}", hint=hint) from None


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(f"not a valid MCP server name: {name!r}", hint="use at most 64 letters, digits, - and _")


def _split_url(url: str) -> Any:
    try:
        return urlsplit(url)
    except ValueError:
        return None


class StaleConnection(Exception):
    """The server has forgotten this connection and did nothing: the request can be repeated on a new one."""


class ServerFailure(Exception):
    """A failure of a server; the message is for people."""
