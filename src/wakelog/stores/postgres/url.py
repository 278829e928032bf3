"""PostgreSQL URLs: separate the parameters of wakelog from those of libpq, and build connection parameters.

wakelog's own are `pooler=transaction` (the connection goes through a pooler, and two transactions may run on two server
connections) and `direct=URL`, percent-encoded: a URL that bypasses that pooler, for LISTEN. All others are passed to
libpq. URLs are never displayed, because they may contain a password.
"""

import os
import re
from typing import Any
from urllib.parse import unquote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from wakelog.errors import UsageError

_HINT = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with reserved characters percent-encoded"
_PARAMETER = re.compile(r'URI query parameter: "(\w{1,40})"')
# Timeouts for servers that do not answer, also on connections that are already open.
_DEFAULTS: dict[str, str] = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
    "fallback_application_name": "wakelog",
}
# Generic plans: planning over all partitions each time takes longer than running a statement. READ COMMITTED: the
# second of two concurrent writers must see the changes of the first, not fail because of them.
_OPTIONS = r"-c plan_cache_mode=force_generic_plan -c default_transaction_isolation=read\ committed"
_PREPARE_AFTER = 2


class PostgresUrl:
    """The address of a database and its connection parameters. `lock_timeout_s`: the server's `lock_timeout`."""

    def __init__(self, url: str, *, lock_timeout_s: float | None = None) -> None:
        self._options = _OPTIONS
        if lock_timeout_s is not None:
            # For the server 0 means no limit.
            self._options += f" -c lock_timeout={max(1, round(lock_timeout_s * 1000))}"
        plain, _, query = url.partition("?")
        words = [word.partition("=") for word in query.split("&") if word]
        own_parameters = {name: unquote(value) for name, _, value in words if name in ("pooler", "direct")}
        libpq_parameters = "&".join("".join(word) for word in words if word[0] not in own_parameters)
        self._parameters = _parsed(f"{plain}?{libpq_parameters}" if libpq_parameters else plain)
        self.is_pooled = _is_pooled(own_parameters.get("pooler"))
        self._direct = PostgresUrl(own_parameters["direct"]) if "direct" in own_parameters else None

    @property
    def listening(self) -> "PostgresUrl | None":
        """The URL for LISTEN, which does not work through a pooler; None if there is none."""
        return self._direct if self.is_pooled else self

    def parameters(self) -> dict[str, Any]:
        """The parameters for `psycopg.connect`."""
        defaults = {name: value for name, value in _DEFAULTS.items() if f"PG{name.upper()}" not in os.environ}
        given = defaults | self._parameters | {"client_encoding": "UTF8", "autocommit": True}
        if self.is_pooled:
            # Prepared statements would stay on a server connection that other clients use next.
            return given | {"prepare_threshold": None}
        given_options = self._parameters.get("options") or os.environ.get("PGOPTIONS", "")
        return given | {"options": f"{self._options} {given_options}".strip(), "prepare_threshold": _PREPARE_AFTER}

    def __str__(self) -> str:
        host = self._parameters.get("host") or os.environ.get("PGHOST") or "the local socket"
        port = self._parameters.get("port") or os.environ.get("PGPORT") or "5432"
        return f"PostgreSQL at {host}:{port}"

    @property
    def database(self) -> str:
        """The name of the database, from the URL or the environment; else the user's name."""
        return str(self._parameters.get("dbname") or os.environ.get("PGDATABASE") or self.user)

    @property
    def user(self) -> str:
        """The name of the role, from the URL or the environment; else "the current user"."""
        return str(self._parameters.get("user") or os.environ.get("PGUSER") or "the current user")


def _parsed(url: str) -> dict[str, Any]:
    what = "cannot be read"
    # A password with an unescaped `@`, `/` or `?` would be parsed as host, port or database, and displayed as such.
    if url.count("@") <= 1 and "@" not in url.partition("?")[2]:
        try:
            parameters = conninfo_to_dict(url)
        except psycopg.Error as error:
            # The message of libpq may contain the password; only the name of a parameter is safe to repeat.
            unknown = _PARAMETER.search(str(error))
            what = f"has a parameter that libpq does not know: {unknown[1]}" if unknown else what
        else:
            if all(port.isdigit() for port in str(parameters.get("port") or "0").split(",") if port):
                return parameters
    raise UsageError(f"the URL of the store {what}", hint=_HINT)


def _is_pooled(pooler: str | None) -> bool:
    if pooler not in (None, "transaction"):
        raise UsageError(f"unknown pooler {pooler!r}", hint="use …?pooler=transaction")
    return pooler is not None
