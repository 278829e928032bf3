"""What a `postgresql://…` URL says: libpq's part as it is, and ours taken out of it.

Ours: `pooler=transaction` (a pooler stands between, and two transactions may meet two servers), and `direct=URL`,
percent-encoded: the way past that pooler, for those who listen. Everything else is libpq's to judge.
Nothing here shows a URL: it may hold a password.
"""

import os
import re
from typing import Any
from urllib.parse import unquote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from wakelog.errors import UsageError

_HINT = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with %XX for signs that mean something in a URL"
_PARAMETER = re.compile(r'URI query parameter: "(\w{1,40})"')
# A server that does not answer is given up, also one that was cut off in the middle of a conversation.
_DEFAULTS: dict[str, str] = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
    "fallback_application_name": "wakelog",
}
# A plan for every statement is made once: to look into all partitions each time takes longer than the statement. And
# who comes second must see what the first one did, not fail because of it.
_OPTIONS = r"-c plan_cache_mode=force_generic_plan -c default_transaction_isolation=read\ committed"
_PREPARE_AFTER = 2


class PostgresUrl:
    """Where the database is, and how to speak with it."""

    def __init__(self, url: str, *, lock_timeout_s: float | None = None) -> None:
        self._options = _OPTIONS
        if lock_timeout_s is not None:
            # The server takes 0 for no limit.
            self._options += f" -c lock_timeout={max(1, round(lock_timeout_s * 1000))}"
        plain, _, query = url.partition("?")
        words = [word.partition("=") for word in query.split("&") if word]
        ours = {name: unquote(value) for name, _, value in words if name in ("pooler", "direct")}
        theirs = "&".join("".join(word) for word in words if word[0] not in ours)
        self._parameters = _parsed(f"{plain}?{theirs}" if theirs else plain)
        self.is_pooled = _is_pooled(ours.get("pooler"))
        self._direct = PostgresUrl(ours["direct"]) if "direct" in ours else None

    @property
    def listening(self) -> "PostgresUrl | None":
        """Where notices can be waited for: not behind a pooler that changes the connection."""
        return self._direct if self.is_pooled else self

    def parameters(self) -> dict[str, Any]:
        """What a connection is made with."""
        defaults = {name: value for name, value in _DEFAULTS.items() if f"PG{name.upper()}" not in os.environ}
        given = defaults | self._parameters | {"client_encoding": "UTF8", "autocommit": True}
        if self.is_pooled:
            # What one statement leaves behind would be met by somebody else's next one.
            return given | {"prepare_threshold": None}
        theirs = self._parameters.get("options") or os.environ.get("PGOPTIONS", "")
        return given | {"options": f"{self._options} {theirs}".strip(), "prepare_threshold": _PREPARE_AFTER}

    def __str__(self) -> str:
        host = self._parameters.get("host") or os.environ.get("PGHOST") or "the local socket"
        port = self._parameters.get("port") or os.environ.get("PGPORT") or "5432"
        return f"PostgreSQL at {host}:{port}"

    @property
    def database(self) -> str:
        """The name of the database, as far as it is said."""
        return str(self._parameters.get("dbname") or os.environ.get("PGDATABASE") or self.user)

    @property
    def user(self) -> str:
        """The name of the role, as far as it is said."""
        return str(self._parameters.get("user") or os.environ.get("PGUSER") or "the current user")


def _parsed(url: str) -> dict[str, Any]:
    what = "cannot be read"
    # A password with a bare `@`, `/` or `?` would be taken for a host, a port or a database, and be shown as such.
    if url.count("@") <= 1 and "@" not in url.partition("?")[2]:
        try:
            parameters = conninfo_to_dict(url)
        except psycopg.Error as error:
            # What libpq says may quote the password too; only the name of a parameter is safe to repeat.
            unknown = _PARAMETER.search(str(error))
            what = f"has a parameter that libpq does not know: {unknown[1]}" if unknown else what
        else:
            if all(port.isdigit() for port in str(parameters.get("port") or "0").split(",") if port):
                return parameters
    raise UsageError(f"the URL of the store {what}", hint=_HINT)


def _is_pooled(pooler: str | None) -> bool:
    if pooler not in (None, "transaction"):
        raise UsageError("the only `pooler` there is a word for is `transaction`", hint="…?pooler=transaction")
    return pooler is not None
