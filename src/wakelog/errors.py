"""Every exception wakelog raises, as one tree.

    WakelogError
    ├── UsageError          the caller asked for something that cannot be
    │   ├── BadId           a name or id outside the grammar
    │   └── BadQuery        search text that cannot be understood
    ├── NotFound            no such session or entry
    ├── Conflict            another writer was there first; read again, then decide
    │   ├── LeaseLost       another worker runs this session now
    │   └── SessionEnded    the session was ended for good
    └── StoreError          the storage itself failed or is damaged
        ├── Damaged         what is stored cannot be what was written
        ├── NoAccess        the system, or a server, does not let this user read or write it
        ├── Unavailable     the store does not answer at the moment; the same call may succeed later
        ├── StoreBusy       another process held a lock for longer than the limit on the wait
        ├── Untrusted       another user owns it or may write to it, so no agent is run on it
        ├── TooManyOpenFiles  no file descriptor is left; nothing was written
        └── NewerFormat     written by a newer wakelog than this one

Failures of the outside world (a model, a tool, a network) are entries in the log and never
exceptions; these are for callers' mistakes and for storage. A message says what happened, a hint
says what to do, each in one line.
"""


class WakelogError(Exception):
    """The root of the tree: catch it to catch everything wakelog raises."""

    kind = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """The message and the hint, as a traceback or `print(error)` shows them."""
        return "; ".join(filter(None, (self.message, self.hint)))


class UsageError(WakelogError):
    """The caller asked for something that cannot be."""

    kind = "usage"


class BadId(UsageError):
    """An id or name outside the strict grammar."""

    kind = "bad_id"


class BadQuery(UsageError):
    """Search text that cannot be understood."""

    kind = "bad_query"


class NotFound(WakelogError):
    """No such session or entry."""

    kind = "not_found"


class Conflict(WakelogError):
    """Another writer was there first: read what it wrote, then decide again."""

    kind = "conflict"


class LeaseLost(Conflict):
    """The right to run this session has passed to another worker."""

    kind = "lease_lost"


class SessionEnded(Conflict):
    """The session was ended for good: it takes no more than labels, a title and being archived."""

    kind = "session_ended"


class StoreError(WakelogError):
    """The storage failed; what was not acknowledged may or may not be kept."""

    kind = "store"


class Damaged(StoreError):
    """What is stored cannot be what was written."""

    kind = "damaged"


class NoAccess(StoreError):
    """This user may not read or write a file, a folder or a table. What is stored may be in perfect order."""

    kind = "no_access"


class Unavailable(StoreError):
    """The store does not answer at the moment: its server is down or restarts, or another program locks the file.

    What was asked for may or may not have been done. The same call may succeed later; `stores/retrying.py` repeats it.
    """

    kind = "unavailable"


class StoreBusy(StoreError):
    """Another process held a lock of the store for longer than the limit on the wait. Nothing was written.

    `holder_pid` is the process on this machine that holds the lock, or the backend of the PostgreSQL server; None
    where it cannot be found out.
    """

    kind = "busy"

    def __init__(self, message: str, *, hint: str = "", holder_pid: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.holder_pid = holder_pid


class Untrusted(StoreError):
    """Another user owns a file or folder of the store, or may write to it: no agent is run on what it holds."""

    kind = "untrusted"


class TooManyOpenFiles(StoreError):
    """The process, or the system, has no file descriptor left. Nothing was written."""

    kind = "too_many_files"


class NewerFormat(StoreError):
    """The log was written in a newer format than this wakelog reads."""

    kind = "newer_format"
