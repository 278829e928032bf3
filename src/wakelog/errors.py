"""All exceptions of wakelog, as one class hierarchy.

    WakelogError
    ├── UsageError          the caller asked for something that is not possible
    │   ├── BadId           a name or id that does not match the grammar
    │   ├── NotASession     a file that no reader of other agents' sessions knows
    │   ├── OpenToolCalls   a prompt cannot follow tool calls without a result
    │   └── BadQuery        a search query that cannot be parsed
    ├── NotFound            no such session or entry
    ├── Conflict            another writer was faster; read again, then decide
    │   ├── LeaseLost       another worker has the lease of this session now
    │   └── SessionEnded    the session is terminated
    └── StoreError          the storage itself failed or is damaged
        ├── Damaged         stored data differs from what was written
        │   └── UnreadableHeader  the first line of a session cannot be read, so its agent and sender are unknown
        ├── NoAccess        the system or a server denies this user access
        ├── Unavailable     the store does not respond; the same call may succeed later
        ├── StoreClosed     the store was closed while a thread waited for new entries
        ├── StoreBusy       another process held a lock for longer than the wait limit
        ├── Untrusted       another user owns it or may write to it, so no agent is run on it
        ├── TooManyOpenFiles  no file descriptor is left; nothing was written
        └── NewerFormat     written by a newer version of wakelog

Exceptions are for mistakes of callers and failures of storage. Failures of models, tools and networks are
entries in the log, never exceptions. The message says what happened, the hint what to do, each in one line.
"""


class WakelogError(Exception):
    """Base class of all exceptions that wakelog raises."""

    kind = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """Return the message and the hint, for tracebacks and `print(error)`."""
        return "; ".join(filter(None, (self.message, self.hint)))


class UsageError(WakelogError):
    """The caller asked for something that is not possible."""

    kind = "usage"


class BadId(UsageError):
    """An id or name that does not match the grammar."""

    kind = "bad_id"


class NotASession(UsageError):
    """A file is not a session of any agent whose format is known."""

    kind = "not_a_session"


class OpenToolCalls(UsageError):
    """A prompt cannot be recorded: tool calls of the last reply have no result yet."""

    kind = "open_tool_calls"


class BadQuery(UsageError):
    """A search query that cannot be parsed."""

    kind = "bad_query"


class NotFound(WakelogError):
    """The session or entry does not exist."""

    kind = "not_found"


class Conflict(WakelogError):
    """Another writer was faster: read its entries, then decide again."""

    kind = "conflict"


class LeaseLost(Conflict):
    """Another worker has the lease of this session now."""

    kind = "lease_lost"


class SessionEnded(Conflict):
    """The session is terminated: only labels, titles and archiving are accepted."""

    kind = "session_ended"


class StoreError(WakelogError):
    """The storage failed; data that was not acknowledged may or may not be stored."""

    kind = "store"


class Damaged(StoreError):
    """Stored data differs from what was written."""

    kind = "damaged"


class UnreadableHeader(Damaged):
    """The header of a session cannot be read, so it is not known to which agent and sender it belongs.

    The session is read and continued when it is named.
    """

    kind = "unreadable_header"


class NoAccess(StoreError):
    """This user may not read or write a file, folder or table. The stored data may be intact."""

    kind = "no_access"


class Unavailable(StoreError):
    """The store does not respond: its server is down or restarting, or another program has locked the file.

    The operation may or may not have been done. It may succeed later; `stores/retrying.py` repeats it.
    """

    kind = "unavailable"


class StoreClosed(StoreError):
    """The store was closed while another thread waited in `Store.follow`."""

    kind = "closed"


class StoreBusy(StoreError):
    """Another process held a lock of the store for longer than the wait limit. Nothing was written.

    `holder_pid` is the process on this machine that holds the lock, or the PostgreSQL backend; None if unknown.
    """

    kind = "busy"

    def __init__(self, message: str, *, hint: str = "", holder_pid: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.holder_pid = holder_pid


class Untrusted(StoreError):
    """Another user owns a file or folder of the store, or may write to it, so no agent is run on it."""

    kind = "untrusted"


class TooManyOpenFiles(StoreError):
    """The process or the system has no file descriptor left. Nothing was written."""

    kind = "too_many_files"


class NewerFormat(StoreError):
    """The log was written in a newer format than this version of wakelog reads."""

    kind = "newer_format"
