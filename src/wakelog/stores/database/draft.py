"""An append on its way into a database: sealed for the place it asks for, and not yet let in.

Pure. Making one moves the end it is made from, so whoever makes one has that end to itself.
"""

from wakelog.log.end import End
from wakelog.log.lines import Line
from wakelog.ports import Append, Sealed
from wakelog.stores.database.rows import row_of
from wakelog.stores.database.tables import Addition, Row


class Draft:
    """An append on its way: the row it would be, and the end of the log behind it."""

    def __init__(self, session: str, append: Append, end: End) -> None:
        size = end.size
        written = end.seal(append.body)
        seq = end.advance(written)
        self.end = end
        self.row = row_of(written, append.body, seq)
        self.addition = Addition(session, size, (self.row,), append.fence, append.durable)

    def sealed(self) -> Sealed:
        """What the caller gets, once the row is in."""
        raw = self.row.raw.strip(b"\n")
        return Sealed(self.row.seq or 0, Line(raw, self.end.size - len(raw) - 1))


def first_row(line: bytes) -> tuple[Row]:
    """The row of a session's first line."""
    return (row_of(End().seal(line), line, 0),)
