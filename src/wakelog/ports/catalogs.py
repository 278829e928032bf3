"""Port of lists and search over all sessions: `Catalog`, its rows and its hits."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec


class SessionRow(msgspec.Struct, frozen=True, gc=False):
    """A session in a list; `ls --json` prints its fields in this order.

    `state` is never `running`: lease holders are not in the log. `attached` says that a worker may hold the lease.
    `unknown_outcomes` is the number of tool calls whose outcome is unknown and that no person has answered.
    `uptime` is in seconds. `cursor` is the position of the row in the list order: the next page begins after it.
    """

    id: str
    name: str
    agent: str
    sender: str
    title: str | None
    updated: str
    entries: int
    state: str
    unknown_outcomes: int
    created: str
    messages: int
    size: int
    model: str | None
    cwd: str
    number: int | None
    archived: bool
    damage: int
    prompt: str
    origin: str | None
    attached: bool
    uptime: float
    cursor: str

    @property
    def is_empty(self) -> bool:
        """Whether nothing was said in the session, and nothing is to be done in it."""
        is_at_rest = self.state in ("idle", "dormant") and not self.attached
        return is_at_rest and not (self.messages or self.title or self.prompt)


class SearchHit(msgspec.Struct, frozen=True, rename="camel"):
    """One search result. `excerpt` marks matches with «»; `cursor` is the `after` argument for the next page.

    `seq` is the number that people use for the entry; None where an earlier entry has the same number.
    """

    session: str
    name: str
    entry: str
    type: str
    timestamp: str
    excerpt: str
    cursor: str
    seq: int | None = None


class Catalog(Protocol):
    """Lists and full-text search over all sessions of a store, without opening logs. Derived data.

    Law 2: the log is the only state, so a catalog can be deleted and rebuilt. `refresh` updates it; queries answer from
    its current content. `after` is the cursor of the last row or hit the caller has; `UsageError` if it is invalid.
    """

    def refresh(
        self,
        *,
        progress: Callable[[int, int], None] | None = None,
        limit_bytes: int | None = None,
        reread: Sequence[str] = (),
    ) -> None:
        """Bring the catalog up to date, newest sessions first.

        `progress` gets the number of logs done and their total. It may query the catalog, which then answers from what
        has been read so far. With `limit_bytes`, sessions are left for a later refresh if about that much would have to
        be read for them. The sessions named in `reread` are read from the start: bytes that another program changed in
        place can leave no trace in the size of a log.
        """
        ...

    def rows(
        self,
        *,
        limit: int | None = None,
        after: str | None = None,
        archived: bool | None = False,
        agent: str | None = None,
        sender: str | None = None,
        cwd: str | None = None,
        state: str | None = None,
        empty: bool | None = None,
    ) -> Sequence[SessionRow]:
        """Return the sessions, last changed first; `archived` and `empty` None include both kinds."""
        ...

    def count(
        self,
        *,
        after: str | None = None,
        archived: bool | None = False,
        agent: str | None = None,
        sender: str | None = None,
        cwd: str | None = None,
        state: str | None = None,
        empty: bool | None = None,
    ) -> int:
        """Return the number of sessions, with the same filters."""
        ...

    def find(self, ref: str) -> Sequence[SessionRow]:
        """Return the session with this id or name; if there is none, those whose id or name starts with it."""
        ...

    def is_damaged(self, name: str) -> bool:
        """Return whether part of the session with that name could not be read."""
        ...

    def inaccessible(self) -> Sequence[str]:
        """Return the names of the sessions that this user had no permission to read at the last refresh."""
        ...

    def unsummarised(self) -> Mapping[str, str]:
        """Return the names of the sessions whose logs could not be summarised at the last refresh, with the reasons.

        Each has a row with the state `unknown`. Its log is read again at the next refresh.
        """
        ...

    def left_out(self) -> Sequence[SessionRow]:
        """Return rows, made from first and last lines only, of the sessions that the last refresh left for later.

        Other queries omit these sessions or return older rows of them.
        """
        ...

    def search(self, query: str, *, limit: int = 50, after: str | None = None) -> Sequence[SearchHit]:
        """Return the best matches first, the newest first among equals. `BadQuery` if the query cannot be parsed."""
        ...

    def close(self) -> None:
        """Close open files and connections."""
        ...
