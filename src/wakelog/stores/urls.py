"""Store URLs: a folder, `jsonl:DIR`, `sqlite:FILE`, `postgresql://…` or `memory:`.

`SCHEMES` is the table of all stores. A new store needs one row there.
"""

import os
from typing import NamedTuple

from wakelog.errors import UsageError


class Scheme(NamedTuple):
    """A kind of store: how its URL looks, which class opens it, and what holds for all stores of the kind."""

    name: str
    form: str
    """The URL as users write it."""
    store: str
    """The class of the store, as `module:class`. It gets the path, or the whole URL of a server, and the options."""
    options: tuple[str, ...] = ()
    """Which keyword arguments of `open_store` the class takes."""
    catalog: str | None = None
    """The module with `catalog_in(store)`, if the catalog is in the store's own database; else it is in the cache."""
    is_path: bool = False
    """Whether the store is a folder or a file."""
    may_be_unavailable: bool = False
    """Whether the store may fail to respond for a while, as a database does that another program uses."""
    has_place: bool = True
    """Whether a URL says where the store is. One that does not ends with its process."""
    aliases: tuple[str, ...] = ()


SCHEMES = (
    Scheme(
        "jsonl",
        "jsonl:DIR",
        "wakelog.stores.jsonl:JsonlStore",
        options=("trusted_owners", "lock_wait"),
        is_path=True,
    ),
    Scheme(
        "sqlite",
        "sqlite:FILE",
        "wakelog.stores.sqlite:SqliteStore",
        options=("trusted_owners", "lock_wait"),
        catalog="wakelog.stores.sqlite.catalog",
        is_path=True,
        may_be_unavailable=True,
    ),
    Scheme(
        "postgresql",
        "postgresql://…",
        "wakelog.stores.postgres:PostgresStore",
        options=("lock_wait",),
        catalog="wakelog.stores.postgres.catalog",
        may_be_unavailable=True,
        aliases=("postgres",),
    ),
    Scheme("memory", "memory:", "wakelog.stores.memory:MemoryStore", has_place=False),
)
_BY_WORD = {word: scheme for scheme in SCHEMES for word in (scheme.name, *scheme.aliases)}
_FOLDER = _BY_WORD["jsonl"]
_FORMS = [scheme.form for scheme in SCHEMES]
_HINT = f"use a folder, {', '.join(_FORMS[:-1])} or {_FORMS[-1]}"


class StoreUrl(NamedTuple):
    """A parsed store URL: its scheme and where the store is. For a server that is the whole URL.

    `prefix` is the scheme as it was written: empty for a folder without one.
    """

    kind: Scheme
    place: str
    prefix: str = ""

    @property
    def scheme(self) -> str:
        """The name of the scheme."""
        return self.kind.name

    @property
    def arguments(self) -> tuple[str, ...]:
        """The positional arguments of the store's class."""
        return (self.path if self.kind.is_path else self.place,) if self.kind.has_place else ()

    @property
    def path(self) -> str:
        """The path of the folder or file, with `~` expanded."""
        return os.path.expanduser(self.place)

    @property
    def absolute(self) -> str:
        """The URL with an absolute path, valid in any working directory."""
        return f"{self.prefix}{os.path.abspath(self.path)}" if self.kind.is_path else self.place

    @property
    def canonical(self) -> str:
        """The URL with links resolved, to compare two. Two URLs of one server may still differ."""
        return f"{self.scheme}:{os.path.realpath(self.path)}" if self.kind.is_path else self.place


def parse_store_url(url: str) -> StoreUrl:
    """Parse a store URL; `UsageError` for an unknown scheme, or one without its file."""
    word, colon, place = url.partition(":")
    scheme = _BY_WORD.get(word) if colon else None
    if scheme is None:
        if colon and word and "/" not in word and not os.path.isdir(url):
            raise UsageError(f"unknown store scheme {word!r}", hint=_HINT)
        return StoreUrl(_FOLDER, url)
    if not scheme.is_path:
        return StoreUrl(scheme, url)
    if scheme is _FOLDER:
        return StoreUrl(scheme, place, "jsonl:")
    if not place.strip("/"):
        raise UsageError(f"`{scheme.name}:` needs a file name", hint=f"for example {scheme.name}:sessions.db")
    return StoreUrl(scheme, place.removeprefix("//"), f"{scheme.name}:")
