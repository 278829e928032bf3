"""Notices about failed model calls and retries: the same words wherever a run is shown.

Pure. A failure is reported when it is logged, and a retry when it begins. A retry is never announced in advance,
because the policy or a cancel may prevent it.
"""

from wakelog.cli.times import lasted
from wakelog.log.entry import Call, Cancelled, Compaction, Entry, Failed, FaultReport, Head, Message


class Tries:
    """Counts consecutive failed model calls per session."""

    def __init__(self) -> None:
        self._failed: dict[str, int] = {}

    def hear(self, session: str, entry: Entry) -> str:
        """Return the notice for an entry; empty if there is none. Stored text in it is not made visible yet."""
        match entry.value:
            case Failed(reason="call", error=FaultReport(retryable=True) as error):
                self._failed[session] = self._failed.get(session, 0) + 1
                return _failure(error)
            case Message() | Cancelled() | Compaction() | Head() | Failed():
                self._failed.pop(session, None)
            case Call(purpose="reply") if session in self._failed:
                return f"trying again (try {self._failed[session] + 1})"
        return ""


def _failure(error: FaultReport) -> str:
    wait = f"; it may be asked again in {lasted(error.delay_ms)}" if error.delay_ms else ""
    return f"the model failed: {error.message or error.kind}{wait}"
