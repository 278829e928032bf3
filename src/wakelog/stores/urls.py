"""Store URLs: a folder, `jsonl:DIR`, `sqlite:FILE`, `postgresql://…` or `memory:`.

The only module that knows the schemes and their properties. A new scheme needs a row here and a case in `open_store`.
"""

import os
from typing import NamedTuple

from wakelog.errors import UsageError

_HINT = "use a folder, jsonl:DIR, sqlite:FILE, postgresql://… or memory:"
_SCHEMES = {
    "jsonl": "jsonl",
    "sqlite": "sqlite",
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "memory": "memory",
}


class StoreUrl(NamedTuple):
    """A parsed store URL: its scheme and where the store is. For a server that is the whole URL.

    `prefix` is the scheme as it was written: empty for a folder without one.
    """

    scheme: str
    place: str
    prefix: str = ""

    @property
    def is_path(self) -> bool:
        """Whether the store is a folder or a file."""
        return self.scheme in ("jsonl", "sqlite")

    @property
    def has_own_catalog(self) -> bool:
        """Whether the catalog is in the store's own database; otherwise it is an index in the cache folder."""
        return self.scheme in ("sqlite", "postgresql")

    @property
    def may_be_unavailable(self) -> bool:
        """Whether the store may fail to respond for a while, as a database does that another program uses."""
        return self.scheme in ("sqlite", "postgresql")

    @property
    def path(self) -> str:
        """The path of the folder or file, with `~` expanded."""
        return os.path.expanduser(self.place)

    @property
    def absolute(self) -> str:
        """The URL with an absolute path, valid in any working directory."""
        return f"{self.prefix}{os.path.abspath(self.path)}" if self.is_path else self.place

    @property
    def canonical(self) -> str:
        """The URL with links resolved, to compare two. Two URLs of one server may still differ."""
        return f"{self.scheme}:{os.path.realpath(self.path)}" if self.is_path else self.place


def parse_store_url(url: str) -> StoreUrl:
    """Parse a store URL; `UsageError` for an unknown scheme, or one without its file."""
    word, colon, place = url.partition(":")
    scheme = _SCHEMES.get(word) if colon else None
    if scheme is None:
        if colon and word and "/" not in word and not os.path.isdir(url):
            raise UsageError(f"unknown store scheme {word!r}", hint=_HINT)
        return StoreUrl("jsonl", url)
    if scheme == "sqlite":
        if not place.strip("/"):
            raise UsageError("`sqlite:` needs a file name", hint="for example sqlite:sessions.db")
        return StoreUrl(scheme, place.removeprefix("//"), "sqlite:")
    return StoreUrl(scheme, place, "jsonl:") if scheme == "jsonl" else StoreUrl(scheme, url)
