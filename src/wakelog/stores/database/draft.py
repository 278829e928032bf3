"""Drafts: seal an append for its requested place before the database accepts it.

Pure. Creating a draft advances the `End` that it is created from, so that object must not be shared.
"""

from wakelog.log.end import End
from wakelog.log.lines import Line
from wakelog.ports import Append, Sealed
from wakelog.stores.database.rows import row_of
from wakelog.stores.database.tables import Addition, Row


class Draft:
    """An append that is not stored yet: its row, and the end of the log after that row."""

    def __init__(self, session: str, append: Append, end: End) -> None:
        size = end.size
        written = end.seal(append.body)
        seq = end.advance(written)
        self.end = end
        self.row = row_of(written, append.body, seq)
        self.addition = Addition(session, size, (self.row,), append.fence, append.durable)

    def sealed(self) -> Sealed:
        """The result of the append, for when the row was added."""
        raw = self.row.raw.strip(b"\n")
        return Sealed(self.row.seq or 0, Line(raw, self.end.size - len(raw) - 1))


def first_row(line: bytes) -> tuple[Row]:
    """The row of a session's first line."""
    return (row_of(End().seal(line), line, 0),)
