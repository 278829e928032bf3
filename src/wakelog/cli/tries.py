"""What is said of a model that fails and is asked again: the same words wherever a run is shown.

Pure. A failure is said when it is met, and another try when it begins, so that neither is ever announced in vain:
whether one follows is the policy's affair, and a person may cancel meanwhile.
"""

from wakelog.cli.times import lasted
from wakelog.log.entry import Call, Cancelled, Compaction, Entry, Failed, FaultReport, Head, Message


class Tries:
    """The calls of sessions that came to nothing in a row."""

    def __init__(self) -> None:
        self._failed: dict[str, int] = {}

    def hear(self, session: str, entry: Entry) -> str:
        """What an entry of a session has to say about it; empty for nothing. The text is as it was stored."""
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
